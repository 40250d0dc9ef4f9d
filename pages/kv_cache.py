"""KV cache: bytes kept and read in each decode step, and the batch at which they pass the weights."""

import math

import streamlit as st

from lab.cost import BYTES_PER_ELEMENT
from lab.cost.cache import cache_bytes
from lab.runs import Run, default_spec
from lab.view import (
    ceilings,
    controls,
    crossover,
    decode_device,
    decode_times,
    here,
    kv_traffic,
    latex,
    navigation,
    phases,
    scenario,
    skeleton,
)
from lab.view.caveats import caveats
from lab.view.decode_times import Times
from lab.view.format import bytes_text, digits, other_bytes, share, tokens_label, whole
from lab.view.measure_panel import Panel

navigation.guard()

PAGE = "kv_cache"
MEASURED_LENGTHS = (128, 1024, 4096)
BYTES, HEADS, MODELS, RECORDED, HERE = "bytes", "heads", "models", "recorded", "here"

scene, palette = scenario.current(), scenario.theme()
model = scene.model
T, B = scene.context, scene.batch
measured_dtype, dtype_reason = here.measured_type(scene.dtype, scene.device)
width = BYTES_PER_ELEMENT[scene.dtype]
crossing = kv_traffic.crossing(scene)
kept, read = kv_traffic.cache(scene, B, T), kv_traffic.weights(scene, B)


def times_of(run: Run | None, *, recorded: bool) -> Times:
    """The times of the recorded device, or of this machine."""
    return Times(scene, run, measured_dtype, recorded)


def draw(run: Run | None) -> None:
    """The heading and the chart that the reader chose."""
    if shown == BYTES:
        kv_traffic.show(PAGE, scene, palette, linear=linear)
    elif shown in (HEADS, MODELS):
        crossover.show(PAGE, scene, palette, by_model=shown == MODELS, linear=linear)
    else:
        decode_times.show(PAGE, times_of(run, recorded=shown == RECORDED), palette, linear=linear)


def show_here() -> None:
    """Pressing Measure turns to the chart on which its points will appear."""
    st.session_state[f"{PAGE}_shown"] = HERE


skeleton.opening(PAGE)
left, right = skeleton.columns()
with left:
    views = {
        BYTES: "bytes of a step",
        HEADS: "crossover, KV heads",
        MODELS: "crossover, models",
        RECORDED: "time, other device",
        HERE: "time, this machine",
    }
    views_help = (
        "Bytes of a whole step, where cache and weights are equal, or the time of one layer's attention."
    )
    shown = controls.pick(PAGE, "shown", "Show", views, views_help)
    linear = controls.linear(PAGE)
    st.metric(
        f"Cache, batch {B}, T = {tokens_label(T)}",
        bytes_text(kept, scene.binary),
        delta=f"{share(kept / read)} of the weights",
        delta_color="off",
        delta_arrow="off",
        help=f"{other_bytes(kept, scene.binary)}; {whole(kept)} bytes",
    )
    spec = default_spec(
        "decode", device=scene.device, dtype=measured_dtype, lengths=MEASURED_LENGTHS,
        batches=decode_times.MEASURED_BATCHES, heads=model.heads, kv_heads=model.kv_heads, head_dim=model.head_dim,
        threads=here.threads(), implementations=("sdpa",),
    )  # fmt: skip
    panel = Panel(PAGE, spec, scene.binary, note=dtype_reason)
    panel.controls(on_press=show_here)
with right:
    panel.live(draw)

parts = cache_bytes(model, B, T, scene.dtype).parts
skeleton.formula(
    r"\text{KV} = B \sum_{\text{kinds of layer}} L\,\min(T, w)\,(k + v) \qquad "
    r"B^{*}:\ \text{KV}(B^{*}) = \text{weights}(B^{*})",
    [
        rf"{B} \cdot {part.layers.layers}\ \text{{layers}} \cdot {latex.number(int(part.tokens))}\ "
        rf"\text{{tokens}} \cdot ({latex.number(part.layers.k_token_bytes)} + "
        rf"{latex.number(part.layers.v_token_bytes)})\ \text{{B}} "
        rf"= {latex.byte_count(part.bytes, scene.binary)}\quad\text{{({part.layers.kind})}}"
        for part in parts
    ]
    + [
        rf"\text{{weights}}({B}) = {latex.byte_count(read, scene.binary)}, \qquad B^{{*}} = "
        + (digits(crossing) if math.isfinite(crossing) else r"\text{none}")
    ],
)
st.caption(
    f"k and v are the bytes of a token's keys and values in one layer: {decode_device.row_words(model)}, "
    f"{width} bytes a number. w is the layer's window, where it has one. The weights are what one step reads: "
    "all but tables of which it looks up a row, and of a mixture the experts that the batch is expected to use."
)

st.subheader(crossover.heading(scene), anchor=False)
skeleton.table(crossover.rows(scene))
st.caption(
    "B* below one: a single sequence's cache is more than the weights that a step reads. Other forms of "
    "attention are the model's own layers with other K and V heads, or a latent in DeepSeek's proportions, and "
    "the projections that go with them."
)

st.subheader("A prompt asks with every token at once, a decode step with one", anchor=False)
skeleton.table(phases.shapes(scene))

run = panel.run()
with st.expander("What the lines of time are added up from"):
    rows = [row for recorded in (True, False) for row in decode_times.terms(times_of(run, recorded=recorded))]
    skeleton.table(rows)
    st.caption(
        f"One layer's step at batch {whole(B)} and T = {tokens_label(T)}. A bound takes the ceilings at full "
        "rate; a prediction the rates that this machine was calibrated with."
    )
    for note in decode_times.notes(times_of(run, recorded=False)):
        st.caption(f"This machine: {note}.")
skeleton.gap([decode_times.gap_text(times_of(run, recorded=recorded)) for recorded in (False, True)])
skeleton.misconception(
    "Batching is free: the weights are read once for the whole batch.", kv_traffic.batching_text(scene)
)
drawn = [(run, "this machine")] if run else []
drawn += [(scene.recorded, ceilings.short_name(scene.recorded))] if scene.recorded else []
skeleton.limits(caveats(drawn, ("decode",)))
skeleton.closing(PAGE)
