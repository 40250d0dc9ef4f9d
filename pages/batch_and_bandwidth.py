"""Batch and bandwidth: what a lone sequence leaves unused, what a batch fills, whether splitting helps."""

import streamlit as st

from lab.cost.decode_layer import layer_cache_bytes, widest_attention
from lab.cost.predict import bound_seconds
from lab.runs import Point, Run, default_spec
from lab.view import (
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
    splitting,
    step_bars,
)
from lab.view.axes import counts_axis
from lab.view.caveats import caveats
from lab.view.counted import counted
from lab.view.decode_device import (
    FUSED_NAMES,
    DecodeDevice,
    form_badges,
    is_latent,
    own_device,
    parts_of,
    point_bytes,
    points_of,
    rate_mark,
    recorded_device,
    seen_words,
)
from lab.view.format import bytes_text, scaled, share, times, tokens_label, whole
from lab.view.frames import Extras
from lab.view.kv_traffic import BATCH_TICKS
from lab.view.layer_kinds import shown_layer
from lab.view.measure_panel import Panel
from lab.view.palette import LIMIT

navigation.guard()

PAGE = "batch_and_bandwidth"
CHOSEN = "chosen"
RECORDED, HERE, SPLIT = "recorded", "here", "split"
MEASURED_LENGTHS = (128, 1024, 4096)
# Fixed, so that points arriving move nothing: a slow CPU and a fast card both fit.
RATES = (1e8, 1e12)
WHY = (
    "The prediction supposes that each head of each sequence is one piece of work, and that fewer pieces than "
    "the device runs at a time leave part of it idle; a short cache is read in less time than the launch takes."
)

scene, palette = scenario.current(), scenario.theme()
model, T, B = scene.model, scene.context, scene.batch
attention, _ = widest_attention(model)
each = "one sequence" if B == 1 else f"each of {whole(B)} sequences"
measured_dtype, dtype_reason = here.measured_type(scene.dtype, scene.device)
reference = recorded_device(scene)


def rate_text(rate: float) -> str:
    """A bandwidth; data sheets and the chapter print them in powers of ten."""
    return scaled(rate, "B/s")


def device_of(run: Run | None, *, recorded: bool) -> DecodeDevice:
    """The device that the bandwidth view shows."""
    return reference if recorded else own_device(scene, run, measured_dtype)


def rate_points(run: Run | None, *, recorded: bool) -> list[Point]:
    """The timed decode steps of a fused kernel."""
    source, dtype = (scene.recorded, scene.dtype) if recorded else (run, measured_dtype)
    found = points_of(source, "decode", model, dtype)
    return [point for point in found if point.implementation in FUSED_NAMES and point.timing]


def rate_takeaway(run: Run | None, *, recorded: bool) -> str:
    """What a batch costs beside one sequence, and the bandwidth that both reach."""
    device = device_of(run, recorded=recorded)
    quiet = [one for one in rate_points(run, recorded=recorded) if one.status != "noisy"]
    timed = {(one.batch, one.kv_len): one for one in quiet}
    pairs = [key for key in timed if key[0] > 1 and (1, key[1]) in timed]
    if pairs:
        batch, at = min(pairs, key=lambda key: (abs(key[1] - T), key[0] != step_bars.BATCHES[-1], key[0]))
        alone, many = (timed[size, at] for size in (1, batch))
        seconds = {1: alone.timing.median_s, batch: many.timing.median_s}
        rates = {1: point_bytes(alone) / seconds[1], batch: point_bytes(many) / seconds[batch]}
        verb = "took"
    elif device.limits and not device.has_rates:
        return (
            f"At best {model.name} reads its cache at {rate_text(device.rate(model, 1, T) or 0)} on "
            f"{device.name}, whatever the batch; what a lone sequence reaches there is not known"
        )
    else:
        batch, at, verb = step_bars.BATCHES[-1], T, "should take"
        predicted = {size: device.seconds(model, size, at) for size in (1, batch)}
        seconds = {size: value for size, value in predicted.items() if value}
        if not seconds:
            return f"One layer of {model.name} on this machine: press Measure to see the bandwidth it reaches"
        rates = {size: device.cache(model, size, at) / value for size, value in seconds.items()}
    there = f" of {rate_text(device.limits.bytes_per_s)}" if device.limits else ""
    return (
        f"On {device.name} at T = {tokens_label(at)}, {batch} sequences {verb} "
        f"{times(seconds[batch] / seconds[1])} as long as one, {step_bars.dearer(batch, seconds[batch] / seconds[1])}: "
        f"one reads its cache at {rate_text(rates[1])}, {batch} at {rate_text(rates[batch])}{there}"
    )


def context_series(contexts: list[int]) -> tuple[list[charts.Series], dict[int, str]]:
    """A line a context and one for the scenario's, and their keys by context: the same, and the spec, for every T."""
    *colours, last = palette.family(len(contexts) + 1)
    fixed = [
        charts.Series(f"context_{at}", f"T = {tokens_label(at)}", colour, width=2)
        for at, colour in zip(contexts, colours, strict=True)
    ]
    chosen = charts.Series(CHOSEN, "T as chosen", last, width=4, end=f"T = {tokens_label(T)}")
    return [*fixed, chosen], {at: f"context_{at}" for at in contexts} | {T: CHOSEN}


def rate_chart(run: Run | None, *, recorded: bool) -> None:
    """Bandwidth of one layer's attention against batch, one line a context."""
    device, found = device_of(run, recorded=recorded), rate_points(run, recorded=recorded)
    contexts = sorted({point.kv_len for point in found} if recorded else MEASURED_LENGTHS)[:4]
    series, keys = context_series(contexts)
    lines = {at: [(size, device.rate(model, size, at)) for size in BATCH_TICKS] for at in keys}
    curves = {keys[at]: [(size, rate) for size, rate in line if rate] for at, line in lines.items()}
    made = (rate_mark(point, keys.get(point.kv_len, ""), recorded=recorded) for point in found)
    marks = [mark for mark in made if mark and mark.series in curves]
    skeleton.takeaway(rate_takeaway(run, recorded=recorded))
    forms = [
        *form_badges(model, here=not recorded),
        *(ceilings.stand_in(scene.recorded, scene.dtype) if recorded else []),
    ]
    extra = (
        []
        if device.has_rates
        else [f"Lines: {'roofs' if is_latent(model) else 'the bandwidth'} alone, an upper bound"]
    )
    skeleton.badges(
        measured=not recorded and bool(marks), recorded_on=device.name if recorded and marks else None,
        extra=[*skeleton.beyond(scene), *forms, *extra],
    )  # fmt: skip
    # The ceiling is a line with a label at its end: a rule would run through the labels of the others.
    series.append(charts.role_series(LIMIT, LIMIT, "bandwidth", palette, 1.5))
    if device.limits:
        curves[LIMIT] = [(size, device.limits.bytes_per_s) for size in BATCH_TICKS]
    values = [rate for line in curves.values() for _, rate in line] + [mark.y for mark in marks]
    values += () if recorded or (linear and values) else RATES
    skeleton.chart(
        PAGE, curves, marks, series, Extras(marker_x=B),
        x=counts_axis("batch (sequences)", BATCH_TICKS, room=0.16),
        y=plain_axes.counts_of("cache read a second, one layer", values, "B/s", linear=linear),
        at=lambda size: whole(int(size)), value=rate_text, palette=palette,
        description="Bandwidth that one layer's attention reaches in a decode step, by batch and context.",
    )  # fmt: skip
    if (which := shown_layer(model)) is not None:
        st.caption(which)


def draw(run: Run | None) -> None:
    """The heading and the chart that the reader chose."""
    if shown == SPLIT:
        splitting.show(PAGE, scene, run, measured_dtype, palette, linear=linear)
    else:
        rate_chart(run, recorded=shown == RECORDED)


def show_here() -> None:
    """Pressing Measure turns to the chart on which its points will appear."""
    if st.session_state.get(f"{PAGE}_shown") == RECORDED:
        st.session_state[f"{PAGE}_shown"] = HERE


skeleton.opening(PAGE)
left, right = skeleton.columns()
with left:
    views = {RECORDED: "recorded", HERE: "this machine", SPLIT: "split caches"}
    shown = controls.pick(PAGE, "shown", "Show", views, "One layer's attention, one new token a sequence.")
    linear = controls.linear(PAGE, "Linear: the vertical axis runs from zero.")
    alone_rate = reference.rate(model, 1, T)
    st.metric(
        "Cache of one layer", bytes_text(layer_cache_bytes(attention, B, T, scene.dtype), scene.binary),
        help=f"Read for one new token of {each} at T = {tokens_label(T)}, {seen_words(model)}.",
    )  # fmt: skip
    experiment, lengths, batches = "decode", MEASURED_LENGTHS, step_bars.BATCHES
    if shown == SPLIT:
        experiment, lengths, batches = "split_kv", (splitting.context(scene),), splitting.BATCHES
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
now = step_bars.show(PAGE, scene, limits, palette)

moved = now.weights.terms[0].bytes_moved, now.cache.terms[0].bytes_moved
skeleton.formula(
    r"t_\text{step} \ge \frac{W + B \cdot \text{KV}}{\text{BW}} \qquad "
    r"t_\text{layer} = \max\!\left(\text{launch},\ \frac{\text{KV}}{\text{BW}},\ "
    r"\frac{\text{KV of one piece}}{\text{rate of one piece}}\right)",
    [
        rf"t_\text{{step}} \ge \frac{{{latex.byte_count(moved[0], scene.binary)} + "
        rf"{latex.byte_count(moved[1], scene.binary)}}}{{{latex.quantity(rate_text(limits.bytes_per_s))}}} = "
        rf"{latex.time(bound_seconds(0, sum(moved), limits).seconds)}",
    ],
)
predicted = reference.prediction(model, B, T)
if predicted is None:
    least = reference.bound(model, B, T, limits)
    st.latex(
        rf"t_\text{{layer}} \ge {latex.time(least.seconds)}\quad\text{{(limited by {least.limited_by}; the rate "
        r"of one piece is not known)}"
    )
else:
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
        skeleton.table(rows)
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
        f"**{device.name[:1].upper()}{device.name[1:]}:** of {counted(len(ratios), 'measured step')} the farthest from "
        f"the prediction is {worst.label} at T = {tokens_label(int(worst.mark.x))}, {times(worst.value)} the "
        f"predicted time. {WHY}"
    )


run = panel.run() if experiment == "decode" else None
skeleton.gap([gap_text(scene.recorded, recorded=True), gap_text(run, recorded=False)])
if shown == SPLIT:
    parts = [parts_of(point) for point in splitting.measured(scene, panel.run(), measured_dtype)]
    st.markdown(
        f"Measured here in up to {counted(max(parts), 'part')}; merging them costs a pass of its own."
        if parts
        else "Splitting has not been measured here yet: Measure tests the hypothesis on this machine."
    )
reached = (
    f"; {reference.name} should read their cache at {rate_text(alone_rate)}, "
    f"{share(alone_rate / limits.bytes_per_s)} of its bandwidth."
    if alone_rate and reference.has_rates
    else f". What {'a kernel over the latent reaches' if is_latent(model) else 'they reach'} on {reference.name} "
    "is not known: no rate of a single piece was measured there."
)
skeleton.misconception(
    "Decoding waits for memory, so one sequence already uses all the bandwidth.",
    f"Only if it offers enough pieces of work, so goes the chapter's hypothesis, which *split caches* tests. "
    f"One sequence of {model.name} is {whole(model.heads)} heads in each layer{reached} Weights are another "
    "matter: a step reads them whole at any batch, of a mixture the experts that its tokens choose.",
)  # fmt: skip
drawn = [(panel.run(), "this machine")] if panel.run() else []
drawn += [(scene.recorded, ceilings.short_name(scene.recorded))] if scene.recorded else []
skeleton.limits(caveats(drawn, ("decode", "split_kv")))
skeleton.closing(PAGE)
