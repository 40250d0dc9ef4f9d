"""Start here: what attention costs, in one picture; a self-test of a few seconds puts this machine on it."""

import streamlit as st

from lab.cost import BYTES_PER_ELEMENT, attention_flops, score_bytes
from lab.cost.budget import budget
from lab.cost.cache import cache_bytes
from lab.cost.shapes import prefill
from lab.runs import Run, default_spec
from lab.view import (
    bound_terms,
    ceilings,
    controls,
    forecasts,
    gaps,
    glossary,
    here,
    latex,
    navigation,
    points,
    prompt,
    scenario,
    skeleton,
    verdict,
)
from lab.view.axes import TOKENS, seconds_axis, tokens_axis
from lab.view.caveats import HAND_COUNTED, caveats
from lab.view.format import bytes_text, flops_text, scaled, seconds_text, share, tokens_label, whole
from lab.view.frames import Extras, Mark
from lab.view.layer_kinds import shown_layer
from lab.view.measure_panel import Panel
from lab.view.palette import FUSED, NAIVE

navigation.guard()

PAGE = "start_here"
# Holds a card at 128 tokens and a slow CPU at 128k; fixed, so that points arriving move nothing.
SECONDS = (1e-6, 1e3)
LAUNCH = (
    "Above it: launch times, matrices too narrow for the full rate, and elementwise work that bandwidth does "
    "not limit."
)
EXPERIMENTS = ("scaling", "selftest")

scene, palette = scenario.current(), scenario.theme()
model = scene.model
measured_dtype, dtype_reason = here.measured_type(scene.dtype, scene.device)
reference = ceilings.reference(scene.recorded, scene.dtype)
recorded_on = ceilings.short_name(scene.recorded) if scene.recorded else reference.name
view = prompt.Prompt(scene, True, measured_dtype)


def flops(tokens: int) -> int:
    """The two matrix products, causal pairs only."""
    return attention_flops(
        scene.batch, model.heads, tokens, tokens, model.head_dim, True, head_dim_v=model.head_dim_v
    )


def bound_flops() -> str:
    """The FLOPs that the bound is of, where kernels have one width and the model two: more than it needs."""
    if model.head_dim == model.head_dim_v:
        return ""
    both = attention_flops(scene.batch, model.heads, scene.context, scene.context, model.head_dim, True)
    return rf"\quad (\text{{with {model.head_dim} for both widths: }} {latex.flop_count(both)})"


def marks_of(run: Run | None, *, recorded: bool) -> list[Mark]:
    """The points of a run at this scenario's shape."""
    return view.marks(run, points.time_mark, recorded=recorded, experiments=EXPERIMENTS)


def at_best(role: str) -> str:
    """The least time that the ceilings of the card compared with allow."""
    return seconds_text(view.bound(f"{role}_reference", scene.context, None))


def takeaway(recorded: list[Mark], own: list[Mark]) -> str:
    """How the two compare here, else as recorded, else by the ceilings: a noisy time makes no headline."""
    T = scene.context
    here_said = verdict.against(own, f"{NAIVE}_here", f"{FUSED}_here", "on this machine", T)
    if here_said:
        return here_said
    keys = (f"{NAIVE}_reference", f"{FUSED}_reference")
    said = verdict.against(recorded, *keys, f"on {recorded_on}", T) or (
        f"At T = {tokens_label(T)} the ceilings of {reference.name} allow naive attention "
        f"{at_best(NAIVE)} and SDPA {at_best(FUSED)} at best"
    )
    return f"{said}; this machine was too busy to say" if any(mark.noisy for mark in own) else said


def draw(run: Run | None) -> None:
    """The heading, the badges and the chart."""
    grid = [max(1, scene.context * place // 32) for place in range(1, 33)] if linear else list(TOKENS)
    curves = view.bounds(run, grid)
    recorded, own = marks_of(scene.recorded, recorded=True), marks_of(run, recorded=False)
    skeleton.takeaway(takeaway(recorded, own))
    skeleton.badges(
        measured=bool(own),
        recorded_on=recorded_on if recorded else None,
        extra=[
            *skeleton.beyond(scene),
            *prompt.both_widths(model),
            *ceilings.stand_in(scene.recorded, scene.dtype),
            *view.forecast(run).badges,
            *points.looks(own),
        ],
    )
    x = tokens_axis("context T (tokens)", linear_up_to=scene.context if linear else None, room=0.18)
    top = [y for curve in curves.values() for _, y in curve]
    y = seconds_axis("time of one layer's attention", top if linear else [*top, *SECONDS], linear=linear)
    skeleton.chart(
        PAGE, curves, [*recorded, *own], prompt.series(palette), Extras(
            limits_x=skeleton.context_limit(scene),
            marker_x=scene.context,
            slopes=() if linear else [(16384, SECONDS[0] * 30, 2, "T ×2 → time ×4")],
        ),
        x=x, y=y, at=lambda T: whole(int(T)), value=seconds_text, palette=palette,
        description="Time of one layer's attention against context: bounds as lines, measurements as points.",
    )  # fmt: skip


skeleton.opening(PAGE)
left, right = skeleton.columns()
with left:
    linear = controls.linear(PAGE)
    st.metric(
        f"One layer, T = {tokens_label(scene.context)}",
        flops_text(flops(scene.context)),
        help=f"{whole(flops(scene.context))} FLOPs in QKᵀ and PV, causal; a multiply-add is 2",
    )
    spec = default_spec(
        "selftest", device=scene.device, dtype=measured_dtype, batches=(scene.batch,), heads=model.heads,
        kv_heads=model.kv_heads, head_dim=model.head_dim, threads=here.threads(),
    )  # fmt: skip
    panel = Panel(PAGE, spec, scene.binary, note=dtype_reason)
    panel.controls()
    layer = shown_layer(model)
    if layer:
        st.caption(layer)
with right:
    panel.live(draw)

skeleton.takeaway(f"What {model.name} costs at T = {tokens_label(scene.context)}, batch {scene.batch}")
share_column, scores_column, cache_column = st.columns(3)
work = budget(model, prefill(scene.batch, scene.context, scene.dtype))
with share_column:
    st.metric(
        "Attention, of all matmul FLOPs",
        share(float(work.attention_share)),
        help=f"{flops_text(work.core_flops)} of {flops_text(work.matmul_flops)}: causal pairs only, the LM "
        "head at every position",
    )
with scores_column:
    st.metric("One layer's score tensor", bytes_text(work.score_bytes, scene.binary))
    st.page_link(navigation.entry("score_tensor").path, label="The T×T tensor", icon=":material/grid_on:")
with cache_column:
    cached = cache_bytes(model, scene.batch, scene.context, scene.dtype).total_bytes
    st.metric("KV cache of the whole model", bytes_text(cached, scene.binary))
    st.page_link(navigation.entry("kv_cache").path, label="KV cache", icon=":material/database:")

bytes_each = BYTES_PER_ELEMENT[scene.dtype]
skeleton.formula(
    r"\text{FLOPs} = 2\,B\,h\,\tfrac{T(T+1)}{2}\,(d_k + d_v) \qquad "
    r"t \;\ge\; \sum_{\text{passes}} \max\!\left(\frac{\text{FLOPs}}{P},\ \frac{\text{bytes}}{\text{BW}}\right)",
    [
        rf"2 \cdot {scene.batch} \cdot {model.heads} \cdot \tfrac{{{latex.number(scene.context)} \cdot "
        rf"{latex.number(scene.context + 1)}}}{{2}} \cdot ({model.head_dim} + {model.head_dim_v}) "
        rf"= {latex.flop_count(flops(scene.context))}",
        rf"P = {latex.quantity(scaled(reference.flops_per_s, 'FLOP/s'))},\quad "
        rf"\text{{BW}} = {latex.quantity(scaled(reference.bytes_per_s, 'B/s'))}\quad\Rightarrow\quad "
        rf"t_\text{{SDPA}} \ge {latex.time(view.bound(f'{FUSED}_reference', scene.context, None))}"
        + bound_flops(),
    ],
)
with st.expander(f"What the lines are added up from at T = {tokens_label(scene.context)}"):
    bound_terms.show(view, scene.context, panel.run(), reference.name)
st.caption(f"Ceilings: {reference.name} ({reference.source}). A bound, not a forecast.")
if recorded_on == skeleton.CHAPTERS_CARD:
    st.caption(glossary.says(skeleton.CHAPTERS_TERM))

run = panel.run()
curves = {key: dict(curve) for key, curve in view.bounds(run, list(TOKENS)).items()}
both = [*marks_of(scene.recorded, recorded=True), *marks_of(run, recorded=False)]
expected = lambda mark: curves[mark.series].get(mark.x)  # noqa: E731
skeleton.gap(
    gaps.times_texts(
        (
            (gaps.ratios(both, "measured", prompt.LABELS, expected), "this machine", view.forecast(run).kind),
            (gaps.ratios(both, "recorded", prompt.LABELS, expected), recorded_on, forecasts.BOUND),
        ),
        LAUNCH,
    )
)
scores = score_bytes(scene.batch, model.heads, scene.context, scene.context, bytes_each)
skeleton.misconception(
    "The fused kernel is faster because it computes less.",
    f"Both compute the same function; at T = {tokens_label(scene.context)} it needs "
    f"{flops_text(flops(scene.context))}. Naive attention also writes and reads a tensor of "
    f"{bytes_text(scores, scene.binary)} in every step; the fused kernel never forms it. In a layer "
    "that sees the whole context its time is still quadratic in T.",
)
drawn = [(run, "this machine")] if run and marks_of(run, recorded=False) else []
if scene.recorded and marks_of(scene.recorded, recorded=True):
    drawn.append((scene.recorded, recorded_on))
skeleton.limits(f"{caveats(drawn, EXPERIMENTS)} {HAND_COUNTED}")
skeleton.closing(PAGE)
