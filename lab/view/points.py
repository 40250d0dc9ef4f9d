"""Points of a run as marks on a chart and as rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from lab.cost import BYTES_PER_ELEMENT
from lab.cost.shapes import ModelShape
from lab.runs import Point, Run
from lab.runs.rows import rows
from lab.view.format import bytes_text, flops_text, seconds_text, tokens_label
from lab.view.frames import Mark

REFUSALS = ("refused", "out_of_memory", "wrong", "crashed")
PENDING = "no memory figure yet"
VARIED = ("experiment", "KV heads", "type", "mask")
"""Columns of the table that tell points apart in some experiments and say nothing in the others."""


def fits(point: Point, shape: Mapping[str, Any], *, same_type: bool) -> bool:
    """Whether a point was measured at the shape that a chart shows.

    Args:
        point: of any run.
        shape: values that must agree: batch, heads, kv_heads, head_dim, causal, dtype, …
        same_type: the number type itself must agree, not just its width.
    """
    for name, wanted in shape.items():
        found = getattr(point, name)
        if name == "dtype" and not same_type:
            found, wanted = BYTES_PER_ELEMENT[found], BYTES_PER_ELEMENT[wanted]
        if found != wanted:
            return False
    return True


def kind_of(point: Point, *, recorded: bool) -> str:
    """How a point is drawn: "recorded", "refused", "measured", or "pending" until its last part has come."""
    if point.status in REFUSALS:
        return "refused"
    if recorded:
        return "recorded"
    return "measured" if point.accepted else "pending"


def peak_mark(point: Point, series: str, *, recorded: bool) -> Mark | None:
    """A point on a chart of peak memory against context; a refused one stands where it would have needed."""
    kind = kind_of(point, recorded=recorded)
    height = point.peak_extra_bytes
    if kind == "refused":
        height = point.need_bytes or point.predicted_peak_bytes
    if height is None:
        return None
    predicted = None if point.predicted_peak_bytes is None else float(point.predicted_peak_bytes)
    return Mark(series, kind, float(point.kv_len), *(float(height),) * 3, predicted)


def time_mark(point: Point, series: str, *, recorded: bool) -> Mark | None:
    """A point on a chart of time against context, with its quartiles; None where no time was taken."""
    timing = point.timing
    if timing is None:
        return None
    low = timing.median_s if timing.q1_s is None else timing.q1_s
    high = timing.median_s if timing.q3_s is None else timing.q3_s
    kind = kind_of(point, recorded=recorded)
    return Mark(series, kind, float(point.kv_len), timing.median_s, low, high, noisy=point.status == "noisy")


def has_heads_of(run: Run, model: ModelShape) -> bool:
    """Whether a run holds points with a model's heads: otherwise a page of that model draws none of it."""
    names = ("heads", "kv_heads", "head_dim")
    return any(all(getattr(point, name) == getattr(model, name) for name in names) for point in run.points)


def clean(marks: Iterable[Mark]) -> list[Mark]:
    """The marks that a headline may rest on: neither refused nor noisy."""
    return [mark for mark in marks if mark.kind != "refused" and not mark.noisy]


def looks(marks: Sequence[Mark]) -> list[str]:
    """What hollow and pale points of a chart are, for its badges."""
    own = [mark.look for mark in marks]
    told = {
        "noisy": "Dashed: noisy", "pending": "Pale: memory to come",
        "refused": "Hollow: refused",
    }  # fmt: skip
    return [words for look, words in told.items() if look in own]


def marks(
    run: Run | None,
    shape: Mapping[str, Any],
    series_of: Callable[[Point], str | None],
    mark: Callable[..., Mark | None],
    *,
    recorded: bool,
    same_type: bool,
) -> list[Mark]:
    """The points of a run that belong on a chart.

    Args:
        run: measured here, or recorded; None for none.
        shape: what the chart shows, see `fits`.
        series_of: the line a point belongs to; None leaves it out.
        mark: `peak_mark` or `time_mark`.
        recorded: whether the run came from another machine.
        same_type: see `fits`.
    """
    found = []
    for point in run.points if run else ():
        series = series_of(point)
        if series is not None and fits(point, shape, same_type=same_type):
            found.append(mark(point, series, recorded=recorded))
    return [item for item in found if item is not None]


def table(points: Iterable[Point], *, binary: bool) -> pd.DataFrame:
    """The points as text, for people: kernel, time and spread, peak, error, verdict.

    Args:
        points: at least one, in any order; rows are sorted by experiment, context, batch, variant and implementation.
        binary: write bytes in KiB, MiB, GiB.

    Returns:
        One row a point; columns that would be empty are left out, and so are experiment, KV heads, number type and
        mask where all points share them.
    """
    ordered = sorted(
        points,
        key=lambda point: (
            point.experiment,
            point.kv_len,
            point.batch,
            point.variant or "",
            point.implementation,
        ),
    )
    found = pd.DataFrame(_row(point, binary) for point in ordered)
    told = [name for name in found.columns if (found[name] != "").any()]
    return found[[name for name in told if name not in VARIED or found[name].nunique() > 1]]


def _row(point: Point, binary: bool) -> dict[str, str]:
    return {
        "experiment": point.experiment,
        "T": tokens_label(point.kv_len),
        "batch": str(point.batch),
        "implementation": point.implementation,
        "variant": point.variant or "",
        "KV heads": str(point.kv_heads),
        "type": point.dtype,
        "mask": "causal" if point.causal else "full",
        "time": seconds_text(point.timing.median_s) if point.timing else "",
        "quartiles": _quartiles(point),
        "peak": _bytes(point.peak_extra_bytes, binary),
        "predicted peak": _bytes(point.predicted_peak_bytes, binary),
        "error against fp64": _error(point),
        "verdict": verdict(point, binary=binary),
        "kernel seen": point.kernel or "",
        "also": "; ".join(_measure(*item, binary) for item in point.measures.items()),
        "remarks": " ".join(point.warnings),
    }


def _measure(name: str, value: float, binary: bool) -> str:
    """What an experiment saw beside, by the unit that ends its name."""
    words, _, unit = name.rpartition("_")
    if unit == "bytes":
        return f"{words.replace('_', ' ')} {bytes_text(value, binary)}"
    if unit == "flops":
        return f"{words.replace('_', ' ')} {flops_text(value)}"
    if unit == "s":
        return f"{words.replace('_', ' ')} {seconds_text(value)}"
    return f"{name.replace('_', ' ')} {value:.3g}"


def verdict(point: Point, *, binary: bool) -> str:
    """Whether a point is accepted, and why not.

    Args:
        point: of any run.
        binary: write bytes in KiB, MiB, GiB.
    """
    if point.status == "refused" and point.need_bytes is not None and point.have_bytes is not None:
        need, have = bytes_text(point.need_bytes, binary), bytes_text(point.have_bytes, binary)
        return f"refused: needs {need}, {have} free"
    if point.accepted:
        busy = point.reason or "the machine was busy"
        return "accepted" if point.status == "ok" else f"accepted, noisy: {busy}"
    if point.status in ("ok", "noisy"):
        return PENDING if point.peak_extra_bytes is None else "not accepted: incomplete"
    return f"{point.status.replace('_', ' ')}: {point.reason or 'no reason given'}"


def csv_bytes(run: Run) -> bytes:
    """The points of a run as CSV, numbers in SI units, one row a point; columns empty everywhere left out."""
    found = pd.DataFrame(rows(run))
    if "accepted" not in found.columns:  # a run without points
        return found.to_csv(index=False).encode()
    for name in ("samples_s", "warnings"):
        found[name] = ["; ".join(map(str, value)) for value in found[name]]
    empty = [name for name in found.columns if found[name].isin([None, ""]).all()]
    return found.drop(columns=empty).to_csv(index=False).encode()


def _bytes(count: int | None, binary: bool) -> str:
    return "" if count is None else bytes_text(count, binary)


def _quartiles(point: Point) -> str:
    timing = point.timing
    if timing is None or timing.q1_s is None or timing.q3_s is None:
        return ""
    return f"{seconds_text(timing.q1_s)} … {seconds_text(timing.q3_s)}"


def _error(point: Point) -> str:
    if point.max_abs_error is None:
        return ""
    if point.tolerance is None:
        return f"{point.max_abs_error:.1e}"
    return f"{point.max_abs_error:.1e} (allowed {point.tolerance:.0e})"
