"""Tricks that can be measured here: what each saves by the count, and what it saved when it ran."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lab.cost import BYTES_PER_ELEMENT, attention_flops, kv_bytes
from lab.cost.formulas import attention_pairs
from lab.cost.storage import STORAGE
from lab.runs import JobSpec, Point, Run
from lab.runs.comparison import Ratio, ratio_of
from lab.runs.readings.words import one
from lab.runs.variants import STORED, WINDOWS, groupings
from lab.view import bars, plain_axes, points, skeleton, tricks
from lab.view.axes import Axis
from lab.view.bars import Bars, Part
from lab.view.counted import counted
from lab.view.format import digits, share, times, tokens_label
from lab.view.palette import Palette
from lab.view.scenario import Scenario

WINDOWED, GROUPED, STORAGES = "windowed", "gqa", "kv_int8"
LENGTHS = {WINDOWED: (1024, 4096), GROUPED: (4096,), STORAGES: (1024,)}
PREFILL_LENGTH = 1024  # of the grouped-query experiment
KEYS = ("random", "outlier channels")
"""Kinds of keys that a stored cache is measured with: noise, and channels far larger than the others."""
ERRORS = (1e-4, 1.0)
"""The ends of the error's axis: fixed, so that points arriving move nothing."""


@dataclass(frozen=True)
class Cell:
    """One variant of a trick.

    Args:
        change: what it changes by the count, named as its row.
        point: fields of the point that measures it.
        plain: fields of the point it is compared with, timed in the same rounds.
    """

    change: tricks.Change
    point: dict[str, Any]
    plain: dict[str, Any]

    def ratio(self, found: Sequence[Point]) -> Ratio | None:
        """Its time over the plain one's; None until both were timed."""
        own, other = one(found, **self.point), one(found, **self.plain)
        return None if own is None or other is None else ratio_of(own, other, paired=True)


def of_run(run: Run | None, spec: JobSpec) -> list[Point]:
    """The points of a run at a job's heads that passed their check."""
    wanted = {name: getattr(spec, name) for name in ("experiment", "heads", "head_dim", "dtype")}
    wanted["batch"] = spec.batches[0]
    found = run.points if run else ()
    return [
        point for point in found
        if (points.fits(point, wanted, same_type=True) or _prefill(point, wanted)) and point.kernel
    ]  # fmt: skip


def _prefill(point: Point, wanted: dict[str, Any]) -> bool:
    """Whether a point is of grouped heads in prefill, which is measured at batch 1 always."""
    return point.variant == "prefill" and points.fits(point, wanted | {"batch": 1}, same_type=True)


def window_cells(spec: JobSpec) -> list[Cell]:
    """Windows by length: computed in blocks, and as a mask over all pairs."""
    cells = []
    for length in spec.lengths:
        full = int(attention_pairs(length, length, True))
        plain = {"implementation": "sdpa", "variant": None, "kv_len": length}
        for window in (width for width in WINDOWS if width < length):
            kept = int(attention_pairs(length, length, True, window))
            ways = (
                ("windowed", f"window {window}", kept),
                ("sdpa", f"window {window} as a T x T mask", full),
            )
            for name, variant, pairs in ways:
                how = "in blocks" if name == "windowed" else "as a mask"
                row = f"{window} of {tokens_label(length)}, {how}"
                point = {"implementation": name, "variant": variant, "kv_len": length}
                cells.append(Cell(tricks.Change(row, "pairs", full, pairs), point, plain))
    return cells


def grouped_cells(spec: JobSpec) -> list[Cell]:
    """Numbers of KV heads in decode, which reads the cache, and in prefill, which computes the same."""
    width, counts, batch, length = (
        BYTES_PER_ELEMENT[spec.dtype],
        groupings(spec.heads),
        spec.batches[0],
        spec.lengths[0],
    )
    read = {kv: int(kv_bytes(batch, 1, kv, length, spec.head_dim, width)) for kv in counts}
    work = int(attention_flops(1, spec.heads, PREFILL_LENGTH, PREFILL_LENGTH, spec.head_dim, True))
    cells = []
    for phase, at in (("decode", length), ("prefill", PREFILL_LENGTH)):
        for kv in counts[1:]:
            row = f"{phase}, {kv} of {spec.heads} KV heads"
            amounts = ("bytes", read[counts[0]], read[kv]) if phase == "decode" else ("FLOPs", work, work)
            shared = {"implementation": "sdpa", "variant": phase, "kv_len": at}
            own, plain = (shared | {"kv_heads": count} for count in (kv, counts[0]))
            cells.append(Cell(tricks.Change(row, *amounts), own, plain))
    return cells


CELLS: dict[str, Callable[[JobSpec], list[Cell]]] = {WINDOWED: window_cells, GROUPED: grouped_cells}


def time_takeaway(spec: JobSpec, run: Run | None) -> str:
    """The largest saving by the count, and what it saved in time; noisy times are no ground for a verdict."""
    cells = CELLS[spec.experiment](spec)
    found = [point for point in of_run(run, spec) if point.status != "noisy"]
    if not cells:
        return f"With {spec.heads} query head there is nothing to share"
    most = min(cells, key=lambda cell: (cell.change.factor or 1, cell.change.term))
    part = share(float(most.change.factor or 1))
    if spec.experiment == WINDOWED:
        text, which = f"A window of {most.change.term}, keeps {part} of the pairs", "as a mask"
    else:
        text, which = f"{_sentence(most.change.term)} reads {part} of the bytes", "in prefill"
    ratio = most.ratio(found)
    if ratio is None:
        return f"{text}; press Measure to see what that saves in time here"
    others = [cell.ratio(found) for cell in cells if cell.change.factor == 1]
    beside = [other.value for other in others if other is not None]
    unsaved = f"; {which} up to {times(max(beside))}" if beside else ""
    return f"{text} and took {times(ratio.value)} the whole call's time here{unsaved}"


def _sentence(row: str) -> str:
    """The name of a row as the beginning of a sentence: "Decode with 1 of 12 KV heads"."""
    phase, _, heads = row.partition(", ")
    return f"{phase.capitalize()} with {heads}"


def changes(spec: JobSpec) -> list[tricks.Change]:
    """What each variant of a trick changes by the count.

    Args:
        spec: what the button measures; its experiment is one of LENGTHS.
    """
    if spec.experiment in CELLS:
        return [cell.change for cell in CELLS[spec.experiment](spec)]
    plain = spec.head_dim * BYTES_PER_ELEMENT[spec.dtype]
    rows = ((name, STORAGE[name].row(spec.head_dim)) for name in stored_types(spec))
    return [tricks.Change(f"K or V of a head in {name}", "bytes", plain, size) for name, size in rows]


def time_bars(spec: JobSpec, run: Run | None, palette: Palette, binary: bool) -> tuple[Bars, Axis]:
    """One bar a variant from 1 to what the count leaves, and the measured time over the plain one's."""
    cells, found = CELLS[spec.experiment](spec), of_run(run, spec)
    changes = [cell.change for cell in cells]
    ratios = {cell.change.term: ratio for cell in cells if (ratio := cell.ratio(found)) is not None}
    picture = tricks.factor_bars(changes, palette, binary)
    x = tricks.factor_axis(changes)
    marked = [
        (row, min(max(ratio.value, x.low), x.high), f"time over the plain call's: {ratio.text}")
        for row, ratio in ratios.items()
    ]
    # The words stand to the right of the bar and of the point.
    ends = []
    for change in changes:
        ratio = ratios.get(change.term)
        words = f"{change.unit} {tricks.ratio(change.factor or 1)}"
        timed = f", time {tricks.ratio(ratio.value)}" if ratio else ""
        ends.append((change.term, max(1.0, ratio.value if ratio else 1.0), words + timed))
    return replace(picture, points=marked, ends=ends), x


def error_of(run: Run | None, spec: JobSpec, stored: str, keys: str) -> float | None:
    """The root-mean-square error of a decode step over a stored cache, relative to its output's size."""
    found = one(of_run(run, spec), implementation="quantised", variant=f"{stored}, {keys}")
    return found.measures.get("rms_relative_error") if found else None


def _bits(stored: str, head_dim: int) -> float:
    return float(8 * STORAGE[stored].row(head_dim) / head_dim)


def stored_types(spec: JobSpec) -> list[str]:
    """The storage types that hold a head of this width, the fewest bits last."""
    return [name for name in STORED if spec.head_dim % STORAGE[name].block_elements == 0]


def error_takeaway(spec: JobSpec, run: Run | None) -> str:
    """What the type with the fewest bits costs, with harmless keys and with outliers."""
    types = stored_types(spec)
    least = min(types, key=lambda name: _bits(name, spec.head_dim))
    said = f"{least} stores K and V in {digits(_bits(least, spec.head_dim))} bits a number"
    errors = [error_of(run, spec, least, keys) for keys in KEYS]
    if None in errors:
        return f"{said}; press Measure to see what each type costs in accuracy"
    noise, outliers = (share(error or 0.0) for error in errors)
    return f"{said}: the output is off by {noise} with random keys, by {outliers} where channels stick out"


def error_bars(spec: JobSpec, run: Run | None, palette: Palette) -> tuple[Bars, Axis]:
    """One row a storage type and kind of keys: its bytes in words, its measured error as a point."""
    width = BYTES_PER_ELEMENT[spec.dtype]
    rows, ends, marked = [], [], []
    x = plain_axes.errors("error over the output's size (rms)", ERRORS)
    for stored in stored_types(spec):
        bits = _bits(stored, spec.head_dim)
        for keys in KEYS:
            row = f"{stored}, {keys}"
            rows.append(row)
            error = error_of(run, spec, stored, keys)
            if error:
                at = min(max(error, x.low), x.high)
                marked.append((row, at, f"off by {share(error)} of the output's size"))
            ends.append((row, x.high, f"{digits(bits)} bits ({tricks.ratio(bits / (8 * width))})"))
    wide = replace(x, high=x.high * (x.high / x.low) ** 0.6)  # room for the words
    return Bars(rows, (Part("stored", palette.ramp[2]),), [], ends, points=marked), wide


def show(page: str, scene: Scenario, spec: JobSpec, run: Run | None, palette: Palette) -> None:
    """Draw one measured trick.

    Args:
        page: the page's file name.
        scene: the scenario.
        spec: what the button measures; its experiment is one of LENGTHS.
        run: measured here; None for none.
        palette: of the theme in use.
    """
    if spec.experiment == STORAGES:
        said = error_takeaway(spec, run)
        picture, x = error_bars(spec, run, palette)
        description = "Error of a decode step over a cache in each storage type, with two kinds of keys."
    else:
        said = time_takeaway(spec, run)
        picture, x = time_bars(spec, run, palette, scene.binary)
        description = (
            "Counted saving of each variant as a bar, its measured time over the plain one's as a point."
        )
    skeleton.takeaway(said)
    skeleton.badges(measured=bool(picture.points), recorded_on=None, extra=skeleton.beyond(scene))
    figure = bars.draw(
        picture, x=x, palette=palette, description=description, height_px=skeleton.HEIGHT_PX, legend=False
    )
    skeleton.show(figure, f"{page}_chart")


def gap_text(spec: JobSpec, run: Run | None) -> str:
    """How the measured savings compare with the counted ones."""
    found = of_run(run, spec)
    if spec.experiment == STORAGES:
        plain = one(found, implementation="sdpa", variant=KEYS[0])
        own = plain.measures.get("rms_relative_error") if plain else None
        if own is None:
            return "No stored cache measured on this machine fits this scenario."
        return (
            f"**This machine:** without storing, the same step is off by {share(own)} of its output's size in "
            f"{spec.dtype}; what lies above is what storing costs. No formula predicts it: it depends on the keys."
        )
    pairs = [(cell.change, cell.ratio(found)) for cell in CELLS[spec.experiment](spec)]
    known = [(change, ratio) for change, ratio in pairs if ratio is not None and change.factor]
    if not known:
        return "Nothing of this kind measured on this machine fits this scenario."
    change, ratio = max(known, key=lambda item: abs(item[1].value / float(item[0].factor or 1) - 1))
    return (
        f"**This machine:** of {counted(len(known), 'variant')} the farthest from its count is {change.term}: "
        f"{digits(float(change.factor or 1))} of the count, {ratio.text} of the time. A count becomes time where "
        "it is what the call waits for: launches, a mask's own traffic and copies of K and V do not shrink."
    )
