"""Time of one layer's attention in a decode step against the context: lines, measured points, their terms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from lab.cost.predict import Bound, Ceilings
from lab.cost.prediction import Prediction
from lab.runs import Point, Run
from lab.view import ceilings, charts, decode_device, forecasts, gaps, points, skeleton
from lab.view.axes import TOKENS, seconds_axis, tokens_axis
from lab.view.format import bytes_text, flops_text, seconds_text, times, tokens_label, whole
from lab.view.frames import Extras, Mark
from lab.view.layer_kinds import shown_layer
from lab.view.palette import Palette
from lab.view.scenario import Scenario

MEASURED_BATCHES = (1, 16)
RECORDED_BATCHES = (1, 16, 64)
# Holds one token on a card and batch 1,024 on a slow CPU; fixed, so that points arriving move nothing.
SECONDS = (1e-6, 1e1)
HEADS = (
    "A single sequence offers few independent heads to share among a card's multiprocessors; that this is "
    "why a lone step falls short of the bandwidth is the chapter's hypothesis, untested there."
)
KERNEL = (
    "Above it: launch time, too few independent heads for the cores, or a kernel whose inner loop cannot "
    "keep up with the memory."
)


@dataclass(frozen=True)
class Times:
    """What the time view shows of one device.

    Args:
        scene: the scenario.
        run: measured on this machine; None for none.
        dtype: what the button measures.
        recorded: whether the device is the one that the reader compares with, not this machine.
    """

    scene: Scenario
    run: Run | None
    dtype: str
    recorded: bool

    @property
    def limits(self) -> Ceilings | None:
        """The ceilings of the bounds; None where this machine's are not known."""
        if self.recorded:
            return ceilings.reference(self.scene.recorded, self.scene.dtype)
        return ceilings.of_run(self.run, self.dtype)

    @property
    def measured_on(self) -> str:
        """The device that the points come from, in words; without points the one of the bounds."""
        if not self.recorded:
            return "this machine"
        if self.scene.recorded is not None and self.marks:
            return ceilings.short_name(self.scene.recorded)
        return self.limits.name if self.limits else "another machine"

    @property
    def marks(self) -> list[Mark]:
        """The decode points at this model's heads, one line a batch."""
        model = self.scene.model
        wanted = {
            "heads": model.heads, "kv_heads": model.kv_heads, "head_dim": model.head_dim, "q_len": 1,
            "dtype": self.scene.dtype if self.recorded else self.dtype,
        }  # fmt: skip

        def series_of(point: Point) -> str | None:
            fused = point.implementation in decode_device.FUSED_NAMES
            return f"batch_{point.batch}" if point.experiment == "decode" and fused else None

        run = self.scene.recorded if self.recorded else self.run
        return points.marks(run, wanted, series_of, points.time_mark, recorded=self.recorded, same_type=True)

    def expected(self) -> Callable[[int, int], float | None]:
        """The time of a step by batch and context: its bound, or what this machine's calibration predicts."""
        model = self.scene.model
        if not self.recorded:
            here = decode_device.own_device(self.scene, self.run, self.dtype)
            return lambda batch, context: here.seconds(model, batch, context)
        device, limits = decode_device.recorded_device(self.scene), self.limits
        return lambda batch, context: device.bound(model, batch, context, limits).seconds if limits else None


def batch_of(series: str) -> int:
    """The batch that a line is named after."""
    return int(series.partition("_")[2])


def takeaway(shown: Times, marks: list[Mark], curves: dict[str, list[tuple[float, float]]]) -> str:
    """What a larger batch costs in time, measured or as a bound, as near the scenario's context as is known."""
    scene = shown.scene
    timed = {(batch_of(mark.series), int(mark.x)): mark.y for mark in points.clean(marks)}
    pairs = [key for key in timed if key[0] > 1 and (1, key[1]) in timed]
    verb, where = "took", shown.measured_on
    if not pairs:
        drawn = ((batch_of(key), dict(curve).get(scene.context)) for key, curve in curves.items())
        timed = {(batch, scene.context): seconds for batch, seconds in drawn if seconds}
        pairs = [key for key in timed if key[0] > 1 and (1, key[1]) in timed]
        verb = "takes at least"
        where = shown.limits.name if shown.recorded and shown.limits else "this machine"
    if not pairs:
        return (
            f"One decode step in one layer of {scene.model.name}: press Measure to see this machine's times"
        )
    batch, at = min(pairs, key=lambda key: _distance(key, scene))
    one, many = timed[1, at], timed[batch, at]
    busy = (
        "; this machine was too busy to say" if verb != "took" and any(mark.noisy for mark in marks) else ""
    )
    return (
        f"On {where} one layer's step at T = {tokens_label(at)} {verb} {seconds_text(one)} for one "
        f"sequence, {seconds_text(many)} for {batch}: {times(many / one)} as long{busy}"
    )


def _distance(key: tuple[int, int], scene: Scenario) -> tuple[float, bool, int]:
    """How far a batch and a context lie from the scenario's; of equally near ones the largest batch."""
    batch, at = key
    return abs(math.log2(at / scene.context)), batch != scene.batch, -batch


def show(page: str, shown: Times, palette: Palette, *, linear: bool) -> None:
    """Draw the time of a step against the context, one line a batch.

    Args:
        page: the page's file name.
        shown: of one device.
        palette: of the theme in use.
        linear: axes from zero to the scenario's context.
    """
    scene, recorded = shown.scene, shown.recorded
    T, model = scene.context, scene.model
    batches = sorted({*(RECORDED_BATCHES if recorded else MEASURED_BATCHES), scene.batch})
    grid = [max(1, T * place // 32) for place in range(1, 33)] if linear else list(TOKENS)
    series = [
        charts.Series(f"batch_{batch}", f"batch {batch}", colour)
        for batch, colour in zip(batches, palette.family(len(batches)), strict=True)
    ]
    seconds_of = shown.expected()
    lines = {item.key: [(t, seconds_of(batch_of(item.key), t)) for t in grid] for item in series}
    curves = {
        key: [(t, seconds) for t, seconds in line if seconds is not None] for key, line in lines.items()
    }
    marks = [mark for mark in shown.marks if mark.series in curves]
    skeleton.takeaway(takeaway(shown, marks, curves))
    read_as = decode_device.form_badges(model, here=not recorded)
    read_as += ceilings.stand_in(scene.recorded, scene.dtype) if recorded else []
    drawn_from = ["Lines: bounds"]
    if not recorded:
        drawn_from = forecasts.of_scene(scene, shown.run, shown.dtype).badges
    skeleton.badges(
        measured=not recorded and bool(marks), recorded_on=shown.measured_on if recorded and marks else None,
        extra=[*skeleton.beyond(scene), *read_as, *drawn_from],
    )  # fmt: skip
    values = [y for curve in curves.values() for _, y in curve]
    skeleton.chart(
        page, curves, marks, series, Extras(limits_x=skeleton.context_limit(scene), marker_x=T),
        x=tokens_axis("context T (tokens)", linear_up_to=T if linear else None, room=0.18),
        y=seconds_axis(
            "one layer's attention, one new token", values if linear and values else [*values, *SECONDS],
            linear=linear,
        ),
        at=lambda t: whole(int(t)), value=seconds_text, palette=palette,
        description="Time of one layer's attention in a decode step against context, by batch.",
    )  # fmt: skip
    if (which := shown_layer(model)) is not None:
        st.caption(which)


def gap_text(shown: Times) -> str:
    """How the measured times of one device compare with its lines."""
    marks, seconds_of = shown.marks, shown.expected()
    labels = {mark.series: mark.series.replace("_", " ") for mark in marks}
    found = gaps.ratios(
        marks, "recorded" if shown.recorded else "measured", labels,
        lambda mark: seconds_of(batch_of(mark.series), int(mark.x)),
    )  # fmt: skip
    basis = forecasts.BOUND
    if not shown.recorded:
        basis = forecasts.of_scene(shown.scene, shown.run, shown.dtype).kind
    return gaps.times_text(found, shown.measured_on, HEADS if shown.recorded else KERNEL, basis)


def notes(shown: Times) -> tuple[str, ...]:
    """What this machine's calibration did not measure for the scenario's step, in words; none of another device's."""
    if shown.recorded:
        return ()
    device = decode_device.own_device(shown.scene, shown.run, shown.dtype)
    predicted = device.prediction(shown.scene.model, shown.scene.batch, shown.scene.context)
    return () if predicted is None else predicted.notes


def terms(shown: Times) -> list[dict[str, str]]:
    """What the scenario's step is added up from on one device: of a prediction, else of a bound.

    Args:
        shown: of one device.

    Returns:
        One row a pass; none where this machine's ceilings are not known.
    """
    scene = shown.scene
    model, B, T = scene.model, scene.batch, scene.context
    if shown.recorded:
        device, limits = decode_device.recorded_device(scene), shown.limits
        predicted = None
    else:
        device = decode_device.own_device(scene, shown.run, shown.dtype)
        limits, predicted = device.limits, device.prediction(model, B, T)
    found: Prediction | Bound
    if predicted is not None:
        found = predicted
    elif limits is not None:
        found = device.bound(model, B, T, limits)
    else:
        return []
    where = shown.limits.name if shown.recorded and shown.limits else "this machine"
    return [
        {
            "device": where, "line": "bound" if predicted is None else "prediction", "pass": term.name,
            "FLOPs": flops_text(term.flops), "bytes": bytes_text(term.bytes_moved, scene.binary),
            "time": seconds_text(term.seconds), "limited by": term.limited_by,
        }
        for term in found.terms
    ]  # fmt: skip
