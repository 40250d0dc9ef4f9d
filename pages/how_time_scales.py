"""How time scales: the exponent and its range, the launch floor, what a causal mask saves, the first call."""

import streamlit as st

from lab.cost import attention_pairs
from lab.runs import Run, default_spec
from lab.view import (
    bound_terms,
    causal_ratio,
    ceilings,
    charts,
    controls,
    first_calls,
    floors,
    forecasts,
    gaps,
    here,
    latex,
    navigation,
    plain_axes,
    points,
    prompt,
    scenario,
    skeleton,
    slopes,
)
from lab.view.axes import TOKENS, Axis, seconds_axis, tokens_axis
from lab.view.caveats import HAND_COUNTED, caveats
from lab.view.format import digits, seconds_text, share, times, tokens_label, whole
from lab.view.frames import Extras, Mark
from lab.view.layer_kinds import shown_layer
from lab.view.measure_panel import Panel
from lab.view.palette import FUSED, MATH, NAIVE

navigation.guard()

PAGE = "how_time_scales"
TIME, CAUSAL, FIRST = "time", "causal", "first"
EXPERIMENT = {TIME: "scaling", CAUSAL: "causal", FIRST: "first_call"}
SHORTEST = {"1024": "1k", "2048": "2k", "1": "all"}
LENGTHS = {TIME: None, CAUSAL: None, FIRST: (128, 1024)}
# Hold a card at 128 tokens and a slow CPU at 128k; fixed, so that points arriving move nothing.
SECONDS, RATIOS, FASTER = (1e-6, 1e3), (2.0,), (20.0,)
REASONS = (
    "At short contexts a launch costs more than the work, so the fitted exponent falls below two; bounds leave "
    "launches out and run below the launch floor there. It is above two where scores fall out of a cache."
)

scene, palette = scenario.current(), scenario.theme()
model, T = scene.model, scene.context
measured_dtype, dtype_reason = here.measured_type(scene.dtype, scene.device)
view = prompt.Prompt(scene, True, measured_dtype)
limits = ceilings.reference(scene.recorded, scene.dtype)
card = ceilings.short_name(scene.recorded) if scene.recorded else limits.name


def fitted(run: Run | None) -> list[slopes.Fit]:
    """The exponents of this machine's run, then those of the recorded one."""
    shape = {name: view.shape(1, "")[name] for name in ("batch", "heads", "kv_heads", "head_dim", "causal")}
    own = slopes.fits(run, "this machine", shape, int(shortest))
    return own + slopes.fits(scene.recorded, card, shape, int(shortest))


def time_takeaway(run: Run | None) -> str:
    """The exponents of one device in the number type shown, and their range."""
    found = [fit for fit in fitted(run) if fit.dtype in (scene.dtype, measured_dtype)]
    quiet = [fit for fit in found if not fit.noisy]
    first = [fit for fit in quiet if fit.where == quiet[0].where]
    if not first:
        naive, fused = (times(view.growth(f"{role}_reference", T)) for role in (NAIVE, FUSED))
        said = (
            f"From T = {tokens_label(T)} to {tokens_label(2 * T)} the least time on {limits.name} grows {naive} for "
            f"naive, {fused} for SDPA; no exponent was measured at this shape"
        )
    else:
        exponents = ", ".join(f"{fit.name} $T^{{{digits(fit.exponent)}}}$" for fit in first)
        said = f"Time grows as {exponents} ({first[0].range_text} tokens, {first[0].dtype}, {first[0].where})"
    return f"{said}; this machine was too busy to say" if any(fit.noisy for fit in found) else said


def grid() -> list[int]:
    """Contexts at which lines are drawn."""
    return [max(1, T * place // 32) for place in range(1, 33)] if linear else list(TOKENS)


def x_axis() -> Axis:
    """The context, with room for labels."""
    return tokens_axis("context T (tokens)", linear_up_to=T if linear else None, room=0.18)


def badges(recorded: list[Mark], own: list[Mark], extra: list[str] | None = None) -> None:
    """What kinds of figures the chart holds."""
    skeleton.badges(
        measured=bool(own), recorded_on=card if scene.recorded and recorded else None,
        extra=[
            *skeleton.beyond(scene), *prompt.both_widths(model),
            *ceilings.stand_in(scene.recorded, scene.dtype), *(extra or []), *points.looks(own),
        ],
    )  # fmt: skip


def time_chart(run: Run | None) -> None:
    """Time against context: bounds, points, launch floors, a triangle of slope two."""
    recorded = view.marks(scene.recorded, points.time_mark, recorded=True)
    own = view.marks(run, points.time_mark, recorded=False)
    skeleton.takeaway(time_takeaway(run))
    badges(recorded, own, view.forecast(run).badges)
    curves = view.bounds(run, grid()) | floors.curves(scene, measured_dtype, grid())
    drawn = [y for curve in curves.values() for _, y in curve] + ([] if linear else list(SECONDS))
    slope = [] if linear else [(16_384, SECONDS[0] * 100, 2, "T ×2 → time ×4")]
    skeleton.chart(
        PAGE, curves, [*recorded, *own], [*prompt.series(palette), *floors.series(palette)],
        Extras(
            limits_x=skeleton.context_limit(scene), marker_x=T, slopes=slope,
        ),
        x=x_axis(), y=seconds_axis("time of one layer's attention", drawn, linear=linear),
        at=lambda tokens: whole(int(tokens)), value=seconds_text, palette=palette,
        description="Time of one layer's attention against context: bounds, measured points, launch floor.",
    )  # fmt: skip


def causal_chart(run: Run | None) -> None:
    """Causal over full time against context."""
    recorded = causal_ratio.recorded_marks(view, scene.recorded)
    own = causal_ratio.measured_marks(view, run)
    skeleton.takeaway(causal_ratio.takeaway(view, recorded, own, card))
    badges(recorded, own)
    curves = causal_ratio.curves(view, grid(), limits)
    labels = {
        f"{FUSED}_reference": (FUSED, "SDPA"), f"{MATH}_reference": (MATH, "math"),
        f"{NAIVE}_reference": (NAIVE, "naive"), f"{FUSED}_here": (FUSED, "SDPA, here"),
        f"{MATH}_here": (MATH, "math, here"), f"{NAIVE}_here": (NAIVE, "naive, here"),
    }  # fmt: skip
    lines = [
        charts.role_series(key, role, label, palette, 3 if key.endswith("here") else 1.6)
        for key, (role, label) in labels.items()
    ]
    drawn = [y for curve in curves.values() for _, y in curve] + list(RATIOS)
    skeleton.chart(
        PAGE, curves, [*recorded, *own], lines,
        Extras(limits_y=causal_ratio.landmarks(T), marker_x=T),
        x=x_axis(), y=plain_axes.ratios("causal time over full time", drawn),
        at=lambda tokens: whole(int(tokens)), value=digits, palette=palette,
        description="Causal over full time against context: predicted lines, measured points.",
    )  # fmt: skip


def first_chart(run: Run | None) -> None:
    """Naive over fused time against context, warm and at the first call."""
    recorded = first_calls.marks(view, scene.recorded, recorded=True)
    own = first_calls.marks(view, run, recorded=False)
    skeleton.takeaway(first_calls.takeaway(run if own else None, scene.recorded, card))
    badges(recorded, own)
    by_side = view.bounds(run, grid())
    fast = dict(by_side["fused_reference"])
    warm = [(t, seconds / fast[t]) for t, seconds in by_side["naive_reference"]]
    ramp = palette.family(2)
    lines = [
        charts.Series(first_calls.WARM, "warm", ramp[0], shape="circle"),
        charts.Series(first_calls.FIRST, "first call", ramp[1], shape="diamond"),
    ]
    last = max((mark for mark in own if mark.series == first_calls.FIRST), key=lambda m: m.x, default=None)
    told = first_calls.landmarks(scene.recorded, card)
    drawn = [y for _, y in warm] + [mark.y for mark in recorded + own] + [y for y, _ in told] + list(FASTER)
    skeleton.chart(
        PAGE, {first_calls.WARM: warm}, [*recorded, *own], lines,
        Extras(limits_y=told, marker_x=T, notes=[(last.x, last.y, "first call")] if last else []),
        x=x_axis(), y=plain_axes.ratios("naive time over SDPA time", drawn),
        at=lambda tokens: whole(int(tokens)), value=times, palette=palette,
        description="Naive over SDPA time against context: warm, and at the first call of each.",
    )  # fmt: skip


def draw(run: Run | None) -> None:
    """The heading and the chart that the reader chose, and the exponents under it."""
    {TIME: time_chart, CAUSAL: causal_chart, FIRST: first_chart}[shown](run)


skeleton.opening(PAGE)
left, right = skeleton.columns()
with left:
    shown = controls.pick(
        PAGE, "shown", "Show", {TIME: "time and exponent", CAUSAL: "causal over full", FIRST: "first call"}
    )
    shortest = controls.choice(
        PAGE, "shortest", "Fit from", SHORTEST, "Contexts below are left out: launches weigh there."
    )
    linear = controls.linear(PAGE)
    spec = default_spec(
        EXPERIMENT[shown], lengths=LENGTHS[shown], device=scene.device, dtype=measured_dtype,
        batches=(scene.batch,),
        heads=model.heads, kv_heads=model.kv_heads, head_dim=model.head_dim, threads=here.threads(),
        implementations=("naive", "math", "sdpa") if shown == CAUSAL else ("naive", "sdpa"),
    )  # fmt: skip
    panel = Panel(PAGE if shown == TIME else f"{PAGE}_{shown}", spec, scene.binary, note=dtype_reason)
    causal_pairs, full_pairs = (int(attention_pairs(T, T, mask)) for mask in (True, False))
    st.metric(
        f"Pairs, T = {tokens_label(T)} to {tokens_label(2 * T)}",
        f"×{digits(int(attention_pairs(2 * T, 2 * T, True)) / causal_pairs)}",
        help=f"{whole(causal_pairs)} pairs of a query and a key become "
        f"{whole(int(attention_pairs(2 * T, 2 * T, True)))}, causal",
    )
    panel.controls()
    layer = shown_layer(model)
    if layer:
        st.caption(layer)
with right:
    panel.live(draw)

run = panel.run()
times_run = (
    run if shown != CAUSAL else Panel(PAGE, default_spec("scaling", device=scene.device), scene.binary).run()
)
found = fitted(times_run)
if found:
    st.subheader(
        "An exponent belongs to a range: "
        + "; ".join(
            f"{fit.name} {fit.dtype} {digits(fit.exponent)}" + " (noisy)" * bool(fit.noisy) for fit in found
        )
        + f" over {found[0].range_text}",
        anchor=False,
    )
    skeleton.table(slopes.table(found))
    st.caption(
        "Fitted by least squares on the logarithms. The columns with an arrow say by how much the time grew "
        "from one context to the next; where launches weigh, it grows less than the work."
        + " The exponent in the source is the one that the recorded run's publication prints."
        * any(fit.printed is not None for fit in found)
    )

skeleton.formula(
    r"t = c\,T^{p}, \qquad p = \frac{\sum (\ln T - \overline{\ln T})(\ln t - \overline{\ln t})}"
    r"{\sum (\ln T - \overline{\ln T})^2}",
    [
        rf"p_\text{{{fit.implementation}, {fit.dtype}}} = {digits(fit.exponent)} \quad "
        rf"\text{{for }} T = {latex.number(fit.lengths[0])} \ldots {latex.number(fit.lengths[-1])}"
        rf"\quad\text{{({fit.where}, {len(fit.lengths)} contexts)}}"
        for fit in found
        if fit.dtype in (scene.dtype, measured_dtype)
    ]
    + [
        rf"\frac{{\text{{causal pairs}}}}{{\text{{all pairs}}}} = \frac{{T(T+1)/2}}{{T^2}} = "
        rf"\frac{{{latex.number(causal_pairs)}}}{{{latex.number(full_pairs)}}} "
        rf"= \frac{{1}}{{2}} + \frac{{1}}{{2T}} = {digits(causal_pairs / full_pairs, 6)}"
    ],
)

with st.expander(f"What the lines of time are added up from at T = {tokens_label(T)}"):
    bound_terms.show(view, T, times_run, limits.name)

scaling_marks = [
    *view.marks(scene.recorded, points.time_mark, recorded=True),
    *view.marks(times_run, points.time_mark, recorded=False),
]
skeleton.gap(
    gaps.times_texts(
        [
            (
                gaps.ratios(
                    scaling_marks, kind, prompt.LABELS, lambda m: view.bound(m.series, int(m.x), times_run)
                ),
                where,
                basis,
            )
            for kind, where, basis in (
                ("measured", "this machine", view.forecast(times_run).kind),
                ("recorded", card, forecasts.BOUND),
            )
        ],
        REASONS,
    )
)
masked = causal_ratio.of_traffic(view, NAIVE, T, limits, device="cuda")
tiles = causal_ratio.of_tiles(view, T, device="cuda", threads=here.threads())
skeleton.misconception(
    "A causal mask halves the time.",
    f"It hides {share(1 - causal_pairs / full_pairs)} of the pairs at T = {tokens_label(T)}. An "
    "implementation that writes the scores down computes them all and pays for the mask on top: by its "
    f"traffic naive attention takes {digits(masked, 2)} times as long as without one. A fused kernel skips "
    "whole tiles only"
    + (f": by their count it takes {digits(tiles, 2)} times as long." if tiles is not None else "."),
)
sides = [(run, "this machine"), (scene.recorded, card)]
drawn = [(of, name) for of, name in sides if of and points.has_heads_of(of, model)]
skeleton.limits(f"{caveats(drawn, ('scaling', 'causal', 'first_call'))} {HAND_COUNTED}")
skeleton.closing(PAGE)
