"""One layer's attention in training, as measured: time of both passes over forward alone, and their peaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lab.cost import BYTES_PER_ELEMENT, score_bytes
from lab.cost.shapes import prefill
from lab.cost.training import backward_bytes, training_budget
from lab.runs import Point, Run
from lab.runs.comparison import ratio_of
from lab.view import charts, plain_axes, points, skeleton
from lab.view.axes import TOKENS, bytes_axis, tokens_axis
from lab.view.format import bytes_text, digits, times, tokens_label, whole
from lab.view.frames import Extras, Mark
from lab.view.palette import FUSED, LIMIT, NAIVE, Palette
from lab.view.scenario import Scenario

FORWARD, BOTH = "forward", "forward and backward"
ROLES = {"naive": NAIVE, "sdpa": FUSED, "flash": FUSED}
NAMES = {NAIVE: "naive", FUSED: "fused"}
DOUBLED = {"naive": "naive", "sdpa": "SDPA", "efficient": "SDPA"}
ATTENTION = {NAIVE: "materialised", FUSED: "fused"}
SCORES, GRADIENTS = "scores", "gradients"
HIGHEST_FACTOR = 7.0
"""The top of the factor's axis: fixed, so that points arriving move nothing."""


@dataclass(frozen=True)
class Passes:
    """What the charts of the passes share.

    Args:
        scene: the scenario.
        dtype: measured on this machine.
    """

    scene: Scenario
    dtype: str

    @property
    def shape(self) -> dict[str, Any]:
        """The call of one layer, its length left open."""
        model = self.scene.model
        return {
            "experiment": "training", "batch": self.scene.batch, "heads": model.heads,
            "kv_heads": model.kv_heads, "head_dim": model.head_dim, "dtype": self.dtype, "causal": True,
        }  # fmt: skip

    def points(self, run: Run | None) -> list[Point]:
        """The points of a run at this scenario's heads that passed their check."""
        fitting = (
            [point for point in run.points if points.fits(point, self.shape, same_type=True)] if run else []
        )
        return [
            point for point in fitting if point.implementation in ROLES and point.status in ("ok", "noisy")
        ]

    def pairs(self, run: Run | None) -> list[tuple[Point, Point]]:
        """Both passes and the forward pass alone, of one implementation at one length."""
        found = {(point.implementation, point.kv_len, point.variant): point for point in self.points(run)}
        return [
            (point, found[name, length, FORWARD])
            for (name, length, variant), point in sorted(found.items())
            if variant == BOTH and (name, length, FORWARD) in found
        ]

    def counted(self, role: str) -> float:
        """Matmul FLOPs of both passes over those of the forward pass."""
        work = prefill(self.scene.batch, self.scene.context, self.scene.dtype)
        step = training_budget(self.scene.model, work, attention=ATTENTION[role])
        return float(step.core_factor)

    def bytes_of(self, key: str, tokens: int) -> int:
        """One score tensor, or the output with the gradients of Q, K and V, of one layer."""
        model, width = self.scene.model, BYTES_PER_ELEMENT[self.dtype]
        if key == SCORES:
            return int(score_bytes(self.scene.batch, model.heads, tokens, tokens, width))
        return int(
            backward_bytes(self.scene.batch, model.heads, model.kv_heads, tokens, model.head_dim, width)
        )

    def factor_marks(self, run: Run | None) -> list[Mark]:
        """Time of both passes over the forward pass, with the interval of the ratio."""
        found = []
        for both, forward in self.pairs(run):
            ratio = ratio_of(both, forward, paired=True)
            if ratio is not None:
                kind = points.kind_of(both, recorded=False)
                ends = (ratio.low or ratio.value, ratio.high or ratio.value)
                role, noisy = ROLES[both.implementation], "noisy" in (both.status, forward.status)
                found.append(Mark(role, kind, float(both.kv_len), ratio.value, *ends, noisy=noisy))
        return found

    def peak_marks(self, run: Run | None) -> list[Mark]:
        """The peak of both passes beside the inputs."""
        made = (
            points.peak_mark(point, ROLES[point.implementation], recorded=False)
            for point in self.points(run)
            if point.variant == BOTH
        )
        return [mark for mark in made if mark is not None]


def factor_takeaway(passes: Passes, run: Run | None) -> str:
    """What both passes take beside the forward pass, measured or counted."""
    counted = {role: passes.counted(role) for role in NAMES}
    quiet = points.clean(passes.factor_marks(run))
    marks = [mark for mark in quiet if mark.series == FUSED] or quiet
    if marks:
        longest = max(marks, key=lambda mark: mark.x)
        return (
            f"Here forward and backward of {NAMES[longest.series]} attention took {times(longest.y)} its forward "
            f"pass at T = {tokens_label(int(longest.x))}, for {digits(counted[longest.series])} times the FLOPs"
        )
    return (
        f"By FLOPs a training step of attention is {digits(counted[FUSED])} forward passes in a fused "
        f"kernel, {digits(counted[NAIVE])} where the probabilities were kept"
    )


def peak_takeaway(passes: Passes, run: Run | None) -> str:
    """The peaks of both passes at the longest length that both implementations were measured at."""
    peaks = {(mark.series, int(mark.x)): mark.y for mark in passes.peak_marks(run) if mark.kind != "refused"}
    shared = [at for role, at in peaks if role == NAIVE and (FUSED, at) in peaks]
    if shared:
        at = max(shared)
        slow, fast = peaks[NAIVE, at], peaks[FUSED, at]
        return (
            f"Here training one layer's attention at T = {tokens_label(at)} held "
            f"{bytes_text(slow, passes.scene.binary)} naive, {bytes_text(fast, passes.scene.binary)} fused"
            + (f": {times(slow / fast)} as much" if fast else "")
        )
    T = passes.scene.context
    scores, least = (bytes_text(passes.bytes_of(key, T), passes.scene.binary) for key in (SCORES, GRADIENTS))
    return (
        f"At T = {tokens_label(T)} a score tensor is {scores}, and a backward pass holds several; output and "
        f"gradients, all a fused kernel must write, are {least}"
    )


def series(palette: Palette) -> list[charts.Series]:
    """Naive and fused attention in the colours of their roles."""
    return [charts.role_series(role, role, name, palette) for role, name in NAMES.items()]


def show_factors(page: str, passes: Passes, run: Run | None, palette: Palette) -> None:
    """Draw the time of both passes over the forward pass, beside the FLOPs counted.

    Args:
        page: the page's file name.
        passes: what the charts share.
        run: measured here; None for none.
        palette: of the theme in use.
    """
    marks = passes.factor_marks(run)
    skeleton.takeaway(factor_takeaway(passes, run))
    skeleton.badges(measured=bool(marks), recorded_on=None, extra=skeleton.beyond(passes.scene))
    counted = {role: passes.counted(role) for role in NAMES}
    curves = {role: [(float(at), value) for at in TOKENS] for role, value in counted.items()}
    skeleton.chart(
        page, curves, marks, series(palette), Extras(marker_x=passes.scene.context),
        x=tokens_axis("context T (tokens)", room=0.16),
        y=plain_axes.ratios("both passes over forward alone", [HIGHEST_FACTOR, *(mark.y for mark in marks)]),
        at=lambda tokens: whole(int(tokens)), value=times, palette=palette,
        description="Forward and backward over forward alone against context: counted FLOPs as lines, "
        "measured times as points.",
    )  # fmt: skip


def show_peaks(page: str, passes: Passes, run: Run | None, palette: Palette, *, linear: bool) -> None:
    """Draw the measured peaks of both passes beside a score tensor and beside the gradients.

    Args:
        page: the page's file name.
        passes: what the charts share.
        run: measured here; None for none.
        palette: of the theme in use.
        linear: axes from zero to the scenario's context.
    """
    marks, binary, T = passes.peak_marks(run), passes.scene.binary, passes.scene.context
    skeleton.takeaway(peak_takeaway(passes, run))
    skeleton.badges(measured=bool(marks), recorded_on=None, extra=skeleton.beyond(passes.scene))
    grid = [max(1, T * place // 32) for place in range(1, 33)] if linear else list(TOKENS)
    lines = {SCORES: "one score tensor", GRADIENTS: "output + gradients"}
    curves = {key: [(float(at), float(passes.bytes_of(key, at))) for at in grid] for key in lines}
    values = [y for curve in curves.values() for _, y in curve] + [mark.y for mark in marks]
    drawn = [
        charts.role_series(SCORES, LIMIT, lines[SCORES], palette, 1.6),
        charts.Series(GRADIENTS, lines[GRADIENTS], palette.text, width=1.6),
        *series(palette),
    ]
    skeleton.chart(
        page, curves, marks, drawn, Extras(marker_x=T),
        x=tokens_axis("context T (tokens)", linear_up_to=T if linear else None, room=0.2),
        y=bytes_axis("one layer's attention, beside its inputs", values, binary=binary, linear=linear),
        at=lambda tokens: whole(int(tokens)), value=lambda size: bytes_text(size, binary), palette=palette,
        description="Peak memory of forward and backward of one layer's attention against context.",
    )  # fmt: skip


def doubling_text(passes: Passes, run: Run | None, place: str, *, recorded: bool) -> str:
    """What time was multiplied by where T doubled, by implementation.

    Args:
        passes: what the charts share.
        run: measured here, or recorded; None for none.
        place: the device, in words.
        recorded: whether the run came from another machine.

    Returns:
        One sentence; empty where no two such times are known.
    """
    wanted = {name: value for name, value in passes.shape.items() if name != "experiment"}
    if recorded:
        wanted["dtype"] = passes.scene.dtype

    def series_of(point: Point) -> str | None:
        asked = ("scaling", None) if recorded else ("training", FORWARD)
        return DOUBLED.get(point.implementation) if (point.experiment, point.variant) == asked else None

    marks = points.marks(run, wanted, series_of, points.time_mark, recorded=recorded, same_type=True)
    parts = []
    for label in dict.fromkeys(DOUBLED.values()):
        timed = {mark.x: mark.y for mark in points.clean(marks) if mark.series == label}
        pairs = [(at, timed[2 * at] / timed[at]) for at in sorted(timed) if 2 * at in timed]
        words = (
            f"{times(factor)} from {tokens_label(int(at))} to {tokens_label(int(2 * at))}"
            for at, factor in pairs
        )
        parts += [f"{label}: {', '.join(words)}"] if pairs else []
    if not parts:
        return ""
    return (
        f"**{place[:1].upper()}{place[1:]}**, how many times as long forward attention takes when T doubles: "
        f"{'; '.join(parts)}."
    )


def gap_text(passes: Passes, run: Run | None) -> str:
    """How measured times and peaks of both passes compare with what was counted."""
    said = []
    for role, name in NAMES.items():
        marks = [mark for mark in passes.factor_marks(run) if mark.series == role]
        if marks:
            factors = ", ".join(f"{digits(mark.y)} at {tokens_label(int(mark.x))}" for mark in marks)
            said.append(f"{name}: {factors} for {digits(passes.counted(role))} times the FLOPs")
    if not said:
        return "No backward pass of this shape has been measured on this machine yet: press Measure."
    text = f"**This machine**, time of forward and backward over forward alone: {'; '.join(said)}."
    longest = {mark.series: mark for mark in sorted(passes.peak_marks(run), key=lambda mark: mark.x)}
    for role, mark in longest.items():
        key, what = (
            (SCORES, "score tensors")
            if role == NAIVE
            else (GRADIENTS, "times the bytes of output and gradients")
        )
        held = digits(mark.y / passes.bytes_of(key, int(mark.x)))
        text += f" At T = {tokens_label(int(mark.x))} {NAMES[role]} attention held {held} {what} at its peak."
    return (
        f"{text} A backward pass reads and writes more for each product than a forward one, and it starts "
        "more kernels: short lengths lie off the count."
    )
