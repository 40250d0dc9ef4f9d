"""Batch and bandwidth: what a lone sequence leaves unused, what a batch fills, and whether splitting helps."""

import streamlit as st

from lab.cost.predict import bound_seconds
from lab.runs import Point, Run, default_spec
from lab.view import (
    bars,
    calibrations,
    ceilings,
    charts,
    controls,
    gaps,
    here,
    latex,
    navigation,
    plain_axes,
    points,
    scenario,
    skeleton,
    step_bars,
)
from lab.view.axes import counts_axis, seconds_axis
from lab.view.caveats import caveats
from lab.view.decode_device import (
    FUSED_NAMES,
    DecodeDevice,
    own_device,
    parts_of,
    point_bytes,
    rate_mark,
    recorded_device,
    split_mark,
)
from lab.view.format import bytes_text, scaled, seconds_text, share, times, tokens_label, whole
from lab.view.frames import Extras, Mark
from lab.view.measure_panel import Panel

navigation.guard()

PAGE = "batch_and_bandwidth"
RECORDED, HERE, SPLIT = "recorded", "here", "split"
BATCH_TICKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
STEP_BATCHES = (1, 4, 16)
PARTS = (1, 2, 4, 8)
MEASURED_LENGTHS, MEASURED_BATCHES = (128, 1024, 4096), (1, 4, 16)
LONGEST_SPLIT = 16_384
# Fixed, so that points arriving move nothing: a slow CPU and a fast card both fit.
RATES, SECONDS = (1e9, 1e12), (1e-5, 1e-1)
WHY = (
    "A sequence is heads × batch pieces of work. Fewer pieces than the device runs at a time leave part of "
    "it idle, and a short cache is over before the launch is."
)

scene, palette = scenario.current(), scenario.theme()
model, T, B = scene.model, scene.context, scene.batch
measured_dtype, dtype_reason = here.measured_type(scene.dtype, scene.device)
reference = recorded_device(scene)
split_T = min(T, LONGEST_SPLIT)


def text(count: float) -> str:
    """Bytes in the unit chosen."""
    return bytes_text(count, scene.binary)


def rate_text(rate: float) -> str:
    """A bandwidth; data sheets and the chapter print them in powers of ten."""
    return scaled(rate, "B/s")


def decode_points(run: Run | None, experiment: str, dtype: str) -> list[Point]:
    """The points of a run at this model's heads, one new token each."""
    wanted = {
        "experiment": experiment, "heads": model.heads, "kv_heads": model.kv_heads,
        "head_dim": model.head_dim, "q_len": 1, "dtype": dtype,
    }  # fmt: skip
    return [point for point in run.points if points.fits(point, wanted, same_type=True)] if run else []


def device_of(run: Run | None, *, recorded: bool) -> DecodeDevice:
    """The device that the bandwidth view shows."""
    return reference if recorded else own_device(scene, run, measured_dtype)


def rate_points(run: Run | None, *, recorded: bool) -> list[Point]:
    """The timed decode steps of a fused kernel."""
    source, dtype = (scene.recorded, scene.dtype) if recorded else (run, measured_dtype)
    found = decode_points(source, "decode", dtype)
    return [point for point in found if point.implementation in FUSED_NAMES and point.timing]


def rate_takeaway(run: Run | None, *, recorded: bool) -> str:
    """What a batch costs beside one sequence, and the bandwidth that both reach."""
    device = device_of(run, recorded=recorded)
    timed = {(one.batch, one.kv_len): one for one in rate_points(run, recorded=recorded)}
    pairs = [key for key in timed if key[0] > 1 and (1, key[1]) in timed]
    if pairs:
        batch, at = min(pairs, key=lambda key: (abs(key[1] - T), key[0] != STEP_BATCHES[-1], key[0]))
        alone, many = (timed[size, at] for size in (1, batch))
        seconds = {1: alone.timing.median_s, batch: many.timing.median_s}
        rates = {1: point_bytes(alone) / seconds[1], batch: point_bytes(many) / seconds[batch]}
        verb = "took"
    elif device.limits and not device.has_rates:
        return (
            f"At best every batch of {model.name} reads its cache at {rate_text(device.limits.bytes_per_s)} on "
            f"{device.name}; what a lone sequence reaches there is not known"
        )
    else:
        batch, at, verb = STEP_BATCHES[-1], T, "should take"
        predicted = {size: device.seconds(model, size, at) for size in (1, batch)}
        seconds = {size: value for size, value in predicted.items() if value}
        if not seconds:
            return f"One layer of {model.name} on this machine: press Measure to see the bandwidth it reaches"
        rates = {size: device.cache(model, size, at) / value for size, value in seconds.items()}
    there = f" of {rate_text(device.limits.bytes_per_s)}" if device.limits else ""
    return (
        f"On {device.name}, {batch} sequences of {tokens_label(at)} {verb} {times(seconds[batch] / seconds[1])} "
        f"as long as one: one reads its cache at {rate_text(rates[1])}, {batch} at "
        f"{rate_text(rates[batch])}{there}"
    )


def rate_chart(run: Run | None, *, recorded: bool) -> None:
    """Bandwidth of one layer's attention against batch, one line a context."""
    device, found = device_of(run, recorded=recorded), rate_points(run, recorded=recorded)
    own = {point.kv_len for point in found} if recorded else set(MEASURED_LENGTHS)
    contexts = sorted({*list(sorted(own))[:4], T})
    series = [
        charts.Series(f"context_{at}", f"T = {tokens_label(at)}", colour, width=4 if at == T else 2)
        for at, colour in zip(contexts, palette.family(len(contexts)), strict=True)
    ]
    lines = {at: [(size, device.rate(model, size, at)) for size in BATCH_TICKS] for at in contexts}
    curves = {f"context_{at}": [(size, rate) for size, rate in line if rate] for at, line in lines.items()}
    made = (rate_mark(point, f"context_{point.kv_len}", recorded=recorded) for point in found)
    marks = [mark for mark in made if mark and mark.series in curves]
    skeleton.takeaway(rate_takeaway(run, recorded=recorded))
    extra = [] if device.has_rates else ["Lines: the bandwidth alone, an upper bound"]
    skeleton.badges(
        measured=not recorded and bool(marks), recorded_on=device.name if recorded and marks else None,
        extra=[*skeleton.beyond(scene), *extra],
    )  # fmt: skip
    limit = [(device.limits.bytes_per_s, f"bandwidth, {device.name}")] if device.limits else []
    values = [*RATES, *(rate for rate, _ in limit), *(y for line in curves.values() for _, y in line)]
    skeleton.chart(
        PAGE, curves, marks, series, Extras(limits_y=limit, marker_x=B),
        x=counts_axis("batch (sequences)", BATCH_TICKS, room=0.16),
        y=plain_axes.counts_of("cache read a second, one layer", values, "B/s"),
        at=lambda size: whole(int(size)), value=rate_text, palette=palette,
        description="Bandwidth that one layer's attention reaches in a decode step, against batch, by context.",
    )  # fmt: skip


def split_devices(run: Run | None) -> dict[str, DecodeDevice]:
    """Both devices of the split view."""
    return {"reference": reference, "here": own_device(scene, run, measured_dtype)}


def split_marks(run: Run | None) -> list[Mark]:
    """What this machine's fused kernel took, whole and split."""
    found = [
        point for point in decode_points(run, "split_kv", measured_dtype)
        if point.kv_len == split_T and (point.implementation in FUSED_NAMES or "fused" in (point.variant or ""))
    ]  # fmt: skip
    made = (split_mark(point, f"here_{point.batch}", recorded=False) for point in found)
    return [mark for mark in made if mark]


def split_takeaway(marks: list[Mark], devices: dict[str, DecodeDevice]) -> str:
    """What splitting a lone sequence's cache brought here, else what it should bring."""
    alone = {int(mark.x): mark.y for mark in marks if mark.series == "here_1" and mark.kind != "refused"}
    if len(alone) > 1 and 1 in alone:
        best = min((parts for parts in alone if parts > 1), key=lambda parts: alone[parts])
        verdict = "helps" if alone[best] < alone[1] else "does not help"
        return (
            f"Splitting a lone sequence {verdict} on this machine: at T = {tokens_label(split_T)} "
            f"{best} parts took {seconds_text(alone[best])}, the whole cache {seconds_text(alone[1])}"
        )
    device = devices["reference"]
    pieces = f"{whole(model.heads)} pieces of work become {whole(model.heads * PARTS[-1])}"
    line = {parts: device.seconds(model, 1, split_T, parts) for parts in PARTS}
    if not device.has_rates or not line[1]:
        return f"Cut into {PARTS[-1]} parts, a lone sequence's {pieces}; {device.name} gives no rate of one piece"
    best = min(line, key=lambda parts: line[parts])
    if best == 1:
        return f"A lone sequence of {tokens_label(split_T)} should gain nothing from a split on {device.name}"
    return (
        f"Cut into {best} parts, a lone sequence of {tokens_label(split_T)} should take "
        f"{seconds_text(line[best])} instead of {seconds_text(line[1])} on {device.name}: a hypothesis, "
        "untested there"
    )


def split_chart(run: Run | None) -> None:
    """Time of one layer's attention against the parts that each head's cache is cut into."""
    devices, marks = split_devices(run), split_marks(run)
    keys = [(side, batch) for side in devices for batch in (1, STEP_BATCHES[-1])]
    series = [
        charts.Series(
            f"{side}_{batch}", f"batch {batch}, {'here' if side == 'here' else 'card'}", colour,
            width=3.5 if side == "here" else 2,
        )
        for (side, batch), colour in zip(keys, palette.family(len(keys)), strict=True)
    ]  # fmt: skip
    lines = {
        f"{side}_{batch}": [(n, devices[side].seconds(model, batch, split_T, n)) for n in PARTS]
        for side, batch in keys
    }
    curves = {key: [(n, seconds) for n, seconds in line if seconds] for key, line in lines.items()}
    skeleton.takeaway(split_takeaway(marks, devices))
    skeleton.badges(measured=bool(marks), recorded_on=None, extra=skeleton.beyond(scene))
    values = [*SECONDS, *(y for line in curves.values() for _, y in line)]
    skeleton.chart(
        PAGE, curves, marks, series, Extras(), x=counts_axis("parts of each cache", PARTS, room=0.2),
        y=seconds_axis(f"one layer, one new token, T = {tokens_label(split_T)}", values),
        at=lambda n: f"{int(n)} parts", value=seconds_text, palette=palette,
        description="Time of one layer's attention in a decode step against the parts of a split cache.",
    )  # fmt: skip


def draw(run: Run | None) -> None:
    """The heading and the chart that the reader chose."""
    if shown == SPLIT:
        split_chart(run)
    else:
        rate_chart(run, recorded=shown == RECORDED)


def show_here() -> None:
    """Pressing Measure turns to the chart on which its points will appear."""
    if st.session_state.get(f"{PAGE}_shown") == RECORDED:
        st.session_state[f"{PAGE}_shown"] = HERE


skeleton.opening(PAGE)
left, right = skeleton.columns()
with left:
    views = {
        RECORDED: "bandwidth, other device",
        HERE: "bandwidth, this machine",
        SPLIT: "splitting the cache",
    }
    shown = controls.pick(PAGE, "shown", "Show", views, "One layer's attention, one new token a sequence.")
    alone_rate = reference.rate(model, 1, T)
    st.metric(
        f"One layer's cache, batch {B}, T = {tokens_label(T)}", text(reference.cache(model, B, T)),
        help="Keys and values that one layer's attention reads for one new token of each sequence.",
    )  # fmt: skip
    lengths, batches = (
        ((split_T,), (1, STEP_BATCHES[-1])) if shown == SPLIT else (MEASURED_LENGTHS, MEASURED_BATCHES)
    )
    experiment = "split_kv" if shown == SPLIT else "decode"
    spec = default_spec(
        experiment, device=scene.device, dtype=measured_dtype, lengths=lengths, batches=batches,
        heads=model.heads, kv_heads=model.kv_heads, head_dim=model.head_dim, threads=here.threads(),
        implementations=("sdpa",), quick=shown == SPLIT,
    )  # fmt: skip
    panel = Panel(f"{PAGE}_{experiment}", spec, scene.binary, note=dtype_reason)
    panel.controls(on_press=show_here)
with right:
    panel.live(draw)

limits = reference.limits
steps = [step_bars.step(model, size, T, scene.dtype, limits) for size in sorted({*STEP_BATCHES, B})]
by_batch = {one.batch: one for one in steps}
one, many = by_batch[1], by_batch[STEP_BATCHES[-1]]
skeleton.takeaway(
    f"A whole step reads the weights once for all: {many.batch} sequences take "
    f"{times(many.seconds / one.seconds)} as long as one at best, and {times(one.seconds / many.seconds_per_token)} "
    "less time a token"
)
longest = max(one.seconds for one in steps)
skeleton.show(
    bars.draw(
        step_bars.bars(steps, palette), x=seconds_axis(f"least time of a step, {limits.name}", [longest * 1.5], linear=True),
        palette=palette, description="Least time of a decode step by batch: weights and cache.",
        height_px=90 + 44 * len(steps),
    ),
    f"{PAGE}_steps",
)  # fmt: skip
now = by_batch[B]
st.caption(
    f"All layers of {model.name} at T = {tokens_label(T)}, the ceilings of {limits.name}: a bound, not a "
    f"measurement. At batch {B} the weights are limited by {now.weights.limited_by}, the cache by "
    f"{now.cache.limited_by}."
)

moved = now.weights.terms[0].bytes_moved, now.cache.terms[0].bytes_moved
skeleton.formula(
    r"t_\text{step} \ge \frac{W + B \cdot \text{KV}}{\text{bandwidth}} \qquad "
    r"t_\text{layer} = \max\!\left(\text{launch},\ \frac{\text{KV}}{\text{bandwidth}},\ "
    r"\frac{\text{KV of one piece}}{\text{rate of one piece}}\right)",
    [
        rf"t_\text{{step}} \ge \frac{{{latex.byte_count(moved[0], scene.binary)} + "
        rf"{latex.byte_count(moved[1], scene.binary)}}}{{{latex.quantity(rate_text(limits.bytes_per_s))}}} = "
        rf"{latex.time(bound_seconds(0, sum(moved), limits).seconds)}",
    ],
)
predicted = reference.prediction(model, B, T)
if predicted is not None:
    stream = predicted.terms[0]
    st.latex(
        rf"t_\text{{layer}} = {latex.time(predicted.seconds)}\quad\text{{(set by {stream.limited_by}; }}"
        rf"{B} \cdot {model.heads} = {latex.number(B * model.heads)}\ \text{{pieces)}}"
    )
with st.expander("Where the rates come from"):
    found = [
        calibrations.of_recorded(scene.recorded, scene.dtype),
        own_device(scene, panel.run(), measured_dtype).calibration,
    ]
    rows = [
        {"device": item.device, "figure": name, "value": value, "unit": unit, "source": source}
        for item in found if item is not None
        for name, value, unit, source in item.constants() if name.startswith(("bandwidth", "decode", "slots"))
    ]  # fmt: skip
    if rows:
        st.dataframe(rows, hide_index=True, height="content", key=f"{PAGE}_rates")
        st.caption(
            "A rate taken from a cell makes that cell come out by construction: it is no test of the line."
        )
    else:
        st.caption(f"{limits.name}: {limits.source}. No rate of a single piece is known.")


def gap_text(run: Run | None, *, recorded: bool) -> str:
    """How the measured times of one device compare with its lines."""
    device = device_of(run, recorded=recorded)
    found = rate_points(run, recorded=recorded)
    marks = [points.time_mark(point, f"batch {point.batch}", recorded=recorded) for point in found]
    marks = [mark for mark in marks if mark]
    ratios = gaps.ratios(
        marks, "recorded" if recorded else "measured", {mark.series: mark.series for mark in marks},
        lambda mark: device.seconds(model, int(mark.series.split()[1]), int(mark.x)),
    )  # fmt: skip
    if not device.has_rates:
        return gaps.times_text(ratios, device.name, WHY)
    if not ratios:
        return f"Nothing measured on {device.name} fits this scenario."
    worst = max(ratios, key=lambda ratio: abs(ratio.value - 1))
    return (
        f"**{device.name[:1].upper()}{device.name[1:]}:** of {len(ratios)} measured steps the farthest from the "
        f"prediction is {worst.label} at T = {tokens_label(int(worst.mark.x))}, {times(worst.value)} the "
        f"predicted time. {WHY}"
    )


run = panel.run() if experiment == "decode" else None
skeleton.gap([gap_text(scene.recorded, recorded=True), gap_text(run, recorded=False)])
if shown == SPLIT:
    measured = [
        point for point in decode_points(panel.run(), "split_kv", measured_dtype) if parts_of(point) > 1
    ]
    st.markdown(
        f"Split steps measured on this machine: {len(measured)}. Merging the parts costs a pass of its own."
        if measured else "Splitting has not been measured here yet: Measure tests the hypothesis on this machine."
    )  # fmt: skip
reached = f" {reference.name} should read it at {rate_text(alone_rate)}" if alone_rate else ""
skeleton.misconception(
    "Decoding waits for memory, so one sequence already uses all the bandwidth.",
    f"Only if it offers enough pieces of work. One sequence of {model.name} is {whole(model.heads)} heads in "
    f"each layer;{reached}, {share(alone_rate / limits.bytes_per_s)} of its bandwidth. Weights are another "
    "matter: their products use the whole device at any batch.",
)  # fmt: skip
drawn = [(panel.run(), "this machine")] if panel.run() else []
drawn += [(scene.recorded, ceilings.short_name(scene.recorded))] if scene.recorded else []
skeleton.limits(caveats(drawn, ("decode", "split_kv")))
skeleton.closing(PAGE)
