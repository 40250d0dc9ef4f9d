"""Split-KV: one layer's decode step against the parts that each head's cache is cut into."""

from __future__ import annotations

from lab.runs import Point, Run
from lab.view import charts, points, skeleton
from lab.view.axes import counts_axis, seconds_axis
from lab.view.counted import counted
from lab.view.decode_device import (
    FUSED_NAMES,
    DecodeDevice,
    own_device,
    points_of,
    recorded_device,
    split_mark,
)
from lab.view.format import seconds_text, tokens_label, whole
from lab.view.frames import Extras, Mark
from lab.view.palette import Palette
from lab.view.scenario import Scenario
from lab.view.verdict import alike

PARTS = (1, 2, 4, 8)
BATCHES = (1, 16)
LONGEST = 16_384
# Fixed, so that points arriving move nothing: a slow CPU and a fast card both fit.
SECONDS = (1e-5, 1e-1)


def context(scene: Scenario) -> int:
    """The scenario's context, as far as it is measured."""
    return min(scene.context, LONGEST)


def measured(scene: Scenario, run: Run | None, dtype: str) -> list[Point]:
    """The steps of a fused kernel that a run measured at this shape, whole and split."""
    return [
        point for point in points_of(run, "split_kv", scene.model, dtype)
        if point.kv_len == context(scene)
        and (point.implementation in FUSED_NAMES or "fused" in (point.variant or ""))
    ]  # fmt: skip


def takeaway(scene: Scenario, marks: list[Mark], device: DecodeDevice) -> str:
    """What splitting a lone sequence's cache brought here, else what it should bring on a device."""
    at = tokens_label(context(scene))
    alone = {int(mark.x): mark for mark in points.clean(marks) if mark.series == "here_1"}
    if len(alone) > 1 and 1 in alone:
        best = min((parts for parts in alone if parts > 1), key=lambda parts: alone[parts].y)
        split, uncut = alone[best], alone[1]
        if alike(split, uncut):
            verdict = "changes nothing that the spread would tell"
        else:
            verdict = "helps" if split.y < uncut.y else "does not help"
        return (
            f"Splitting a lone sequence {verdict} on this machine: at T = {at}, {best} parts took "
            f"{seconds_text(split.y)}, the whole cache {seconds_text(uncut.y)}"
        )
    heads, most = scene.model.heads, PARTS[-1]
    predicted = {parts: device.seconds(scene.model, 1, context(scene), parts) for parts in PARTS}
    line = {parts: seconds for parts, seconds in predicted.items() if seconds is not None}
    if not device.has_rates or 1 not in line:
        return (
            f"Cut into {most} parts, the {whole(heads)} heads of a lone sequence become "
            f"{whole(heads * most)} pieces of work; what one piece reaches on {device.name} is not known"
        )
    best = min(line, key=lambda parts: line[parts])
    if best == 1:
        return f"A lone sequence at T = {at} should gain nothing from a split on {device.name}"
    return (
        f"Cut into {best} parts, a lone sequence at T = {at} should take {seconds_text(line[best])} instead "
        f"of {seconds_text(line[1])} on {device.name}: a hypothesis, untested there"
    )


def show(page: str, scene: Scenario, run: Run | None, dtype: str, palette: Palette, *, linear: bool) -> None:
    """Draw time against parts: predictions for the other device and for this one, points of this one.

    Args:
        page: the page's file name.
        scene: the scenario.
        run: measured here; None for none.
        dtype: what the button measures.
        palette: of the theme in use.
        linear: the time from zero.
    """
    devices = {"reference": recorded_device(scene), "here": own_device(scene, run, dtype)}
    keys = [(side, batch) for side in devices for batch in BATCHES]
    series = [
        charts.Series(
            f"{side}_{batch}", f"batch {batch}, {'here' if side == 'here' else 'card'}", colour,
            width=3.5 if side == "here" else 2,
        )
        for (side, batch), colour in zip(keys, palette.family(len(keys)), strict=True)
    ]  # fmt: skip
    curves: dict[str, list[tuple[float, float]]] = {}
    for side, batch in keys:
        line = [(n, devices[side].seconds(scene.model, batch, context(scene), n)) for n in PARTS]
        curves[f"{side}_{batch}"] = [(float(n), seconds) for n, seconds in line if seconds is not None]
    found = [
        split_mark(point, f"here_{point.batch}", recorded=False) for point in measured(scene, run, dtype)
    ]
    marks = [mark for mark in found if mark is not None and mark.series in curves]
    skeleton.takeaway(takeaway(scene, marks, devices["reference"]))
    skeleton.badges(measured=bool(marks), recorded_on=None, extra=skeleton.beyond(scene))
    values = [*(seconds for curve in curves.values() for _, seconds in curve), *(mark.y for mark in marks)]
    values += [] if linear and values else SECONDS
    skeleton.chart(
        page, curves, marks, series, Extras(), x=counts_axis("parts of each cache", PARTS, room=0.22),
        y=seconds_axis("one layer, one new token", values, linear=linear), at=lambda n: counted(int(n), "part"),
        value=seconds_text, palette=palette,
        description="Time of one layer's attention in a decode step against the parts of a split cache.",
    )  # fmt: skip
