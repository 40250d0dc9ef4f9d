"""Training and rules: activations over a training step, forward and backward factors, what doubling does."""

import streamlit as st

from lab.cost.activations import stored_activations
from lab.cost.deployment import Deployment
from lab.cost.shapes import prefill, weight_bytes
from lab.cost.storage import STORAGE
from lab.cost.training import training_budget
from lab.runs import Run, default_spec
from lab.view import ceilings as ceilings_of
from lab.view import (
    charts,
    controls,
    frames,
    here,
    latex,
    navigation,
    phases,
    scenario,
    skeleton,
    timeline,
    training_passes,
)
from lab.view.axes import Axis, bytes_axis
from lab.view.caveats import caveats
from lab.view.counted import counted
from lab.view.format import bytes_text, digits, flops_text, other_bytes, tokens_label, whole
from lab.view.frames import Extras
from lab.view.measure_panel import Panel
from lab.view.palette import FUSED, NAIVE
from lab.view.tricks import amount

navigation.guard()

PAGE = "training_and_rules"
STEP, FACTORS, PEAKS = "step", "factors", "peaks"
LENGTHS = (256, 512, 1024)
LONGEST_MEASURED = 4096
# In layers: so far back, every line has fallen below the top of a linear axis.
CLEAR = 1.35
NEVER = ("points", "limits_x", "marker_x", "notes", "slopes", "slope_labels")  # on the chart of a step
LABELS = {
    timeline.MATERIALISED: "scores kept",
    timeline.FUSED: "fused",
    timeline.CHECKPOINTED: "checkpointed",
}

scene, palette = scenario.current(), scenario.theme()
model, B, T = scene.model, scene.batch, scene.context
work = prefill(B, T, scene.dtype)
measured_dtype, dtype_reason = here.measured_type(scene.dtype, scene.device)
kept = {way: stored_activations(model, work, **options) for way, options in timeline.WAYS.items()}
passes = training_passes.Passes(scene, measured_dtype)
steps = {way: training_budget(model, work, **options) for way, options in timeline.WAYS.items()}


def text(count: float) -> str:
    """Bytes in the unit chosen."""
    return bytes_text(count, scene.binary)


def takeaway() -> str:
    """The peaks of the three ways, and what checkpointing costs."""
    peaks = {way: text(found.peak_bytes) for way, found in kept.items()}
    extra = steps[timeline.CHECKPOINTED].total_flops / steps[timeline.FUSED].total_flops
    return (
        f"Training on {whole(B)} × {tokens_label(T)} tokens keeps {peaks[timeline.MATERIALISED]}; "
        f"with a fused kernel {peaks[timeline.FUSED]}; checkpointed {peaks[timeline.CHECKPOINTED]}, "
        f"for {digits(extra)} times the FLOPs"
    )


def step_axis() -> Axis:
    """The places of a step: layers forward, the head, layers back."""
    layers = model.layers
    ticks = (
        (0.0, "start"),
        (layers / 2, "forward →"),
        (layers + 1.0, "head"),
        (1.5 * layers + 2, "backward →"),
    )
    return Axis("one training step, layer by layer", 0, 2.2 * layers + 2, ticks, None)


def where(place: float) -> str:
    """A place of the step in words."""
    layers = model.layers
    if place <= layers:
        return f"after layer {whole(int(place))}, forward"
    if place == layers + 1:
        return "at the head"
    left = 2 * layers + 1 - int(place)
    return f"backward, {counted(left, 'layer')} to go"


def draw(run: Run | None) -> None:
    """The heading and the chart that the reader chose."""
    if shown == FACTORS:
        training_passes.show_factors(PAGE, passes, run, palette)
    elif shown == PEAKS:
        training_passes.show_peaks(PAGE, passes, run, palette, linear=not log)
    else:
        step_chart()


def show_passes() -> None:
    """Pressing Measure turns to a chart on which its points will appear."""
    if st.session_state.get(f"{PAGE}_shown") != PEAKS:
        st.session_state[f"{PAGE}_shown"] = FACTORS


def step_chart() -> None:
    """The heading and the memory of a step over time."""
    curves = {
        way: [(at, size) for at, size in timeline.kept_over_step(model, work, way) if size or not log]
        for way in LABELS
    }
    series = [
        charts.role_series(timeline.MATERIALISED, NAIVE, LABELS[timeline.MATERIALISED], palette),
        charts.role_series(timeline.FUSED, FUSED, LABELS[timeline.FUSED], palette),
        charts.Series(timeline.CHECKPOINTED, LABELS[timeline.CHECKPOINTED], palette.ramp[-1], (9, 3)),
    ]
    skeleton.takeaway(takeaway())
    skeleton.badges(measured=False, recorded_on=None, extra=skeleton.beyond(scene))
    every = [size for curve in curves.values() for _, size in curve if size]
    y = bytes_axis("activations kept", every, binary=scene.binary, linear=not log)
    found = here.memory(scene.device)
    limits = [(float(found[0]), f"{found[1]}, {text(found[0])}")] if found else []
    x = step_axis()
    data = frames.bundle(
        curves, [], series, Extras(limits_y=limits), x=x, y=y, height_px=skeleton.HEIGHT_PX, at=where,
        value=lambda size: f"{text(size)} ({other_bytes(size, scene.binary)})",
    )  # fmt: skip
    data["labels"] = timeline.peak_labels(
        curves, series, y, skeleton.HEIGHT_PX, text, None if log else CLEAR * model.layers
    )
    figure = charts.curves(
        data, series, x=x, y=y, palette=palette, height_px=skeleton.HEIGHT_PX,
        description="Activations kept through one training step: they rise forward and fall backward.",
        without=NEVER,
    )  # fmt: skip
    skeleton.show(figure, f"{PAGE}_chart")


skeleton.opening(PAGE)
left, right = skeleton.columns()
with left:
    views = {STEP: "memory over a step", FACTORS: "time of both passes", PEAKS: "peak of both passes"}
    shown = controls.pick(
        PAGE, "shown", "Show", views, "A step of the model, or one layer's attention measured."
    )
    scales = {"linear": "Linear", "log": "Log"}
    log = shown != FACTORS and controls.choice(PAGE, "scale", "Bytes axis", scales) == "log"
    st.metric(
        f"Step, T = {tokens_label(T)}",
        flops_text(steps[timeline.FUSED].total_flops),
        help="Forward and backward with a fused attention kernel, nothing computed again.",
    )
    own_length = (T,) if LENGTHS[-1] < T <= LONGEST_MEASURED else ()
    spec = default_spec(
        "training", device=scene.device, dtype=measured_dtype, lengths=(*LENGTHS, *own_length), batches=(B,),
        heads=model.heads, kv_heads=model.kv_heads, head_dim=model.head_dim, threads=here.threads(),
        implementations=("naive", "sdpa"), quick=True,
    )  # fmt: skip
    note = "Measures attention forward, and forward with backward."
    panel = Panel(PAGE, spec, scene.binary, note=f"{note} {dtype_reason}" if dtype_reason else note)
    panel.controls(on_press=show_passes)
with right:
    panel.live(draw)

fused = steps[timeline.FUSED]
skeleton.formula(
    r"\text{step} = F + R + (2F + \text{QK}^\top_\text{fused}) \qquad "
    r"\text{kept} = \sum_\text{layers} B\,T\,\sum_\text{tensors} \text{elements} \cdot b",
    [
        rf"\text{{{LABELS[way]}}}:\quad {latex.flop_count(step.forward_flops)} + "
        rf"{latex.flop_count(step.recomputed_flops)} + {latex.flop_count(step.backward_flops)} = "
        rf"{latex.flop_count(step.total_flops)}"
        for way, step in steps.items()
    ]
    + [
        rf"\text{{{LABELS[way]}}}:\quad {latex.byte_count(found.layer_bytes, scene.binary)} "
        rf"\text{{ in {model.layers} layers, at most }}{latex.byte_count(found.peak_bytes, scene.binary)}"
        for way, found in kept.items()
    ],
)
st.caption(
    "F: the forward pass, R: what is computed again. Every product forward has two backward, one gradient "
    "for each operand; a fused kernel, which kept no scores, forms QKᵀ once more inside its backward pass."
)
weights = weight_bytes(model, STORAGE[scene.dtype].row(1))
st.markdown(
    f"On top come the weights, {text(weights)} in {scene.dtype}, as much again for their gradients, and the "
    "optimiser's state."
)
with st.expander("What is kept, tensor by tensor"):
    for way, found in kept.items():
        for layer in found.layers:
            tensors = ", ".join(f"{one.name} {text(layer.tokens * one.token_bytes)}" for one in layer.kept)
            st.markdown(f"**{LABELS[way]}**, {timeline.each_layer(layer.layers)}: {tensors}.")
        st.markdown(f"**{LABELS[way]}**, at the head: {text(found.head_bytes)}.")

st.subheader("Forward and backward, as multiples of the forward pass", anchor=False)
skeleton.table(
    {
        "way": LABELS[way],
        "forward": flops_text(step.forward_flops),
        "computed again": digits(step.recomputed_flops / step.forward_flops),
        "backward": digits(step.backward_flops / step.forward_flops),
        "whole step": digits(step.total_flops / step.forward_flops),
    }
    for way, step in steps.items()
)

by_phase = phases.phases(scene)
st.subheader(phases.heading(model.name, by_phase), anchor=False)
skeleton.table(by_phase)
st.caption(
    "A decode step has one row of scores for each head, so its attention grows at most in line with T; but every "
    "token of an answer takes a step, and each step reads the cache again."
)

deployment = Deployment(
    model=model, batch=B, context=T, max_context=T, dtype=scene.dtype, k_type=scene.dtype, v_type=scene.dtype
)
limits = ceilings_of.reference(scene.recorded, scene.dtype)
rows = timeline.doublings(deployment, limits)
by_name = {row.name: row for row in rows}
core, cache = by_name["attention FLOPs"], by_name["cache needed"]
st.subheader(
    f"From T = {tokens_label(T)} to {tokens_label(2 * T)}: attention FLOPs × {digits(float(core.context))}, "
    f"cache × {digits(float(cache.context))}, weights × {digits(float(by_name['weights'].context))}",
    anchor=False,
)
skeleton.table(
    {
        "quantity": row.name,
        "now": amount(row.value, row.unit, scene.binary),
        "T doubles": f"× {digits(float(row.context))}",
        "batch doubles": f"× {digits(float(row.batch))}",
    }
    for row in rows
)
st.caption(
    "Naive attention in prefill, one new token a step in decode, training with a fused kernel. Latencies are "
    f"bounds under the ceilings of {limits.name}: while reading the weights takes longest, they hardly grow."
    + timeline.window_words(model, T)
)

run = panel.run()
card = ceilings_of.short_name(scene.recorded) if scene.recorded else "another machine"
doubled = [
    training_passes.doubling_text(passes, run, "this machine", recorded=False),
    training_passes.doubling_text(passes, scene.recorded, card, recorded=True),
]
skeleton.gap(
    [
        training_passes.gap_text(passes, run),
        *(said for said in doubled if said),
        f"The arithmetic of attention grows × {digits(float(core.context))} here. Time grows less while "
        "launches and thin matrices weigh, and more where a tensor outgrows a cache.",
    ]
)
share_kept = kept[timeline.MATERIALISED].peak_bytes / kept[timeline.FUSED].peak_bytes
skeleton.misconception(
    "A training step costs three forward passes.",
    f"Two passes back for one forward is the rule for plain products. With a fused kernel the step is "
    f"{digits(fused.total_flops / fused.forward_flops)} forward passes at T = {tokens_label(T)}, "
    f"checkpointed {digits(steps[timeline.CHECKPOINTED].total_flops / fused.forward_flops)}. What training "
    f"really adds is memory: keeping the scores takes {digits(share_kept)} times what a fused kernel does.",
)
drawn = [(run, "this machine")] if run else []
skeleton.limits(
    f"{caveats(drawn, ('training',))} A step's memory: plain modules without dropout; no workspace, no "
    "fragmentation, no optimiser. Its FLOPs are counts, not times."
)
skeleton.closing(PAGE)
