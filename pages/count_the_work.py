"""Count the work: the FLOPs of each part of a pass, and where attention passes the feed-forward blocks."""

import streamlit as st

from lab.cost import crossing_context
from lab.cost.budget import Budget, budget
from lab.cost.shapes import Workload, prefill
from lab.runs import Run, default_spec
from lab.view import (
    ceilings,
    charts,
    controls,
    decode_device,
    flop_counts,
    forecasts,
    gaps,
    here,
    latex,
    longer_prompts,
    navigation,
    plain_axes,
    points,
    prompt,
    rates,
    scenario,
    skeleton,
)
from lab.view.axes import TOKENS, tokens_axis
from lab.view.caveats import HAND_COUNTED, caveats
from lab.view.format import digits, flops_text, share, times, tokens_label, whole
from lab.view.frames import Extras
from lab.view.measure_panel import Panel
from lab.view.palette import DASHES, MATH, NAIVE, WEIGHTS

navigation.guard()

PAGE = "count_the_work"
FLOPS, RATE = "flops", "rate"
PREFILL, DECODE = "prefill", "decode"
# Right of this part of the axis a crossing's words would run into the names of the lines.
CROWDED = 0.5
NOT_ARITHMETIC = (
    "A count of FLOPs says nothing of the score tensor that naive attention writes and reads in every step; "
    "that traffic, and launches, is the time beyond the count."
)

scene, palette = scenario.current(), scenario.theme()
model, T = scene.model, scene.context
measured_dtype, dtype_reason = here.measured_type(scene.dtype, scene.device)


def counted(tokens: int) -> Budget:
    """The pass that the reader chose: a whole prompt, or one new token at the end of `tokens`."""
    work = Workload(scene.batch, tokens, tokens if phase == PREFILL else 1, scene.dtype, causal)
    return budget(model, work)


def part(work: Budget, key: str) -> int:
    """One part of a pass, all layers, in FLOPs."""
    return {
        "core": work.core_flops, "ffn": work.feed_forward_flops, "projections": work.projection_flops,
        "head": work.lm_head_flops, "state": work.state_flops,
    }[key]  # fmt: skip


def parts() -> list[charts.Series]:
    """The lines: the products with weight matrices in the colour of weights, the core apart from them."""
    green = palette.roles[WEIGHTS]
    found = [
        charts.Series("core", "attention core", palette.text, width=4),
        charts.Series("ffn", "FFN", green, tuple(DASHES[WEIGHTS]), width=3),
        charts.Series("projections", "projections", green, tuple(DASHES[MATH]), width=2),
        charts.Series("head", "LM head", green, tuple(DASHES[NAIVE]), width=2),
    ]
    if counted(T).state_flops:
        found.append(charts.Series("state", "recurrent state", palette.text, tuple(DASHES[NAIVE]), width=2))
    return found


def crossing(mask: bool) -> int | None:
    """Where the core costs as much as the feed-forward blocks, in tokens; None: nowhere."""
    if not counted(T).feed_forward_flops or not counted(T).core_flops:
        return None
    return crossing_context(model, against="feed-forward", causal=mask, phase=phase)


def crossing_words(tokens: int | None) -> str:
    """Where the core passes the feed-forward blocks."""
    if not counted(T).feed_forward_flops:
        return "there is no FFN to pass"
    if tokens is None:
        return "it stays below the FFN at every length, because windows hold it back"
    passes = "has passed" if tokens <= T else "passes"
    about = "" if tokens % model.hidden == 0 else "about "
    return f"it {passes} the FFN at {whole(tokens)} tokens, {about}{digits(tokens / model.hidden)} times the width"


def widths(tokens: int) -> str:
    """A length in widths of the model: equal, or so many rounded."""
    sign = "=" if tokens % model.hidden == 0 else r"\approx"
    return f"{sign} {digits(tokens / model.hidden)}"


def takeaway() -> str:
    """Attention's share at the scenario, and the crossing."""
    what = "a prompt's" if phase == PREFILL else "a new token's"
    part_of = share(float(counted(T).attention_share))
    where = crossing_words(crossing(causal))
    return f"{model.name} at T = {tokens_label(T)}: attention is {part_of} of {what} FLOPs; {where}"


def flops_chart(run: Run | None) -> None:
    """FLOPs of each part against the context; as points those that real modules were counted with."""
    grid = [max(1, T * place // 32) for place in range(1, 33)] if linear else list(TOKENS)
    lines = parts()
    works = {tokens: counted(tokens) for tokens in grid}
    curves = {
        item.key: [(float(tokens), float(part(work, item.key))) for tokens, work in works.items()]
        for item in lines
    }
    seen = flop_counts.marks(run, scene, phase)
    pairs = ["Points count all pairs"] if seen and causal else []
    if seen and phase == DECODE and decode_device.is_latent(model):
        pairs.append("Points: the whole latent expanded again, as transformers does")
    skeleton.badges(measured=bool(seen), recorded_on=None, extra=[*skeleton.beyond(scene), *pairs])
    found = crossing(causal)
    x = tokens_axis("context T (tokens)", linear_up_to=T if linear else None, room=0.24)
    crowded = found is not None and x.holds(found) and x.position(found) > CROWDED  # the heading says it
    said = "" if crowded else f"{whole(found or 0)} tokens"
    notes = [(found, part(counted(found), "core"), said)] if found else []
    what = "whole prompt" if phase == PREFILL else "one new token"
    values = [y for curve in curves.values() for _, y in curve] + [mark.y for mark in seen]
    y = plain_axes.counts_of(f"FLOPs, all layers, {what}", values, "FLOPs", linear=linear)
    skeleton.chart(
        PAGE, curves, seen, lines,
        Extras(limits_x=skeleton.context_limit(scene), marker_x=T, notes=notes),
        x=x, y=y, at=lambda tokens: whole(int(tokens)), value=flops_text, palette=palette,
        description="FLOPs of projections, attention core, feed-forward blocks and LM head against context.",
    )  # fmt: skip


def draw(run: Run | None) -> None:
    """The heading and the chart that the reader chose."""
    if shown == FLOPS:
        skeleton.takeaway(takeaway())
        flops_chart(run)
    else:
        rates.show(PAGE, masked, run, palette, linear=linear)


skeleton.opening(PAGE)
left, right = skeleton.columns()
with left:
    shown = controls.pick(
        PAGE, "shown", "Show", {FLOPS: "FLOPs by part", RATE: "rate reached"},
        "The count for the whole model, or how fast one layer's core was computed over a whole prompt.",
    )  # fmt: skip
    causal = controls.causal(PAGE)
    phase = controls.choice(
        PAGE, "phase", "Pass", {PREFILL: "Prefill", DECODE: "Decode"},
        "A whole prompt, or one new token. A new token sees every position: both masks count the same, "
        "windows aside.",
    )  # fmt: skip
    linear = controls.linear(PAGE)
    masked = prompt.Prompt(scene, causal, measured_dtype)
    st.metric(
        f"{'Prompt' if phase == PREFILL else 'New token'}, T = {tokens_label(T)}",
        flops_text(counted(T).matmul_flops),
        help=f"{whole(counted(T).matmul_flops)} FLOPs in matrix products, LM head at every new position",
    )
    counting = shown == FLOPS
    spec = default_spec(
        "flops" if counting else "scaling", device=scene.device, dtype=measured_dtype, batches=(scene.batch,),
        lengths=tuple(sorted({*flop_counts.LENGTHS, T})) if counting else None, heads=model.heads,
        kv_heads=model.kv_heads, head_dim=model.head_dim, causal=causal or counting, threads=here.threads(),
        implementations=None if counting else ("naive", "sdpa"), model=model.id if counting else None,
    )  # fmt: skip
    note = "Counts the FLOPs of the model's real modules, without weights." if counting else dtype_reason
    panel = Panel(f"{PAGE}_{shown}", spec, scene.binary, note=note)
    panel.controls()
with right:
    panel.live(draw)

whole_prompt = prefill(scene.batch, T, scene.dtype, causal=causal)
st.subheader(
    f"Retrieved text is context too: {tokens_label(longer_prompts.ADDED[-1])} tokens of it make a prompt of "
    f"{tokens_label(T)} cost "
    + times(
        longer_prompts.prompt_budget(scene, T + longer_prompts.ADDED[-1], causal).matmul_flops
        / longer_prompts.prompt_budget(scene, T, causal).matmul_flops
    )
    + " as much",
    anchor=False,
)
st.caption(
    "The LM head is applied to the prompt's last position only, as in serving: "
    f"{flops_text(longer_prompts.prompt_budget(scene, T, causal).matmul_flops)} of a prompt of {tokens_label(T)}. "
    f"With every position's it is {flops_text(budget(model, whole_prompt).matmul_flops)}, as the chart counts a prompt."
    + longer_prompts.latent_words(model)
)
skeleton.table(longer_prompts.table(scene, causal))

work = counted(T)
skeleton.formula(
    r"\text{core} = \sum_{\text{layers}} 2\,B\,h\,\text{pairs}\,(d_k + d_v) \qquad "
    r"\text{matrix} = 2\,B\,T_q\,n_\text{in}\,n_\text{out} \qquad "
    r"\text{pairs} = T^2\ \text{or}\ \tfrac{T(T+1)}{2}",
    [
        *(
            r",\quad ".join(
                rf"\text{{{item.label}}} = {latex.flop_count(part(work, item.key))}" for item in line
            )
            for line in (parts()[:2], parts()[2:])
        ),
        r",\quad ".join(
            rf"T^{{*}}_\text{{{name}}} = "
            + (rf"{latex.number(found)} {widths(found)}\,d" if found else r"\text{never}")
            for name, found in (("causal", crossing(True)), ("full", crossing(False)))
        )
        + rf"\qquad d = {latex.number(model.hidden)}",
    ],
)
st.caption(
    "T* is the context at which the core costs as much as the feed-forward blocks; d is the model's width. "
    "Softmax, norms and activations are not matrix products and are not counted. A multiply-add is two FLOPs."
)
with st.expander("Every product"):
    skeleton.table(
        [
            {
                "part": term.part, "product": term.name, "FLOPs of one layer": flops_text(term.flops),
                "layers": term.layers, "share": share(term.total_flops / work.matmul_flops),
            }
            for term in work.terms
        ]
    )  # fmt: skip

run = panel.run()
timed = None if counting else run
both = [
    *masked.marks(scene.recorded, points.time_mark, recorded=True),
    *masked.marks(timed, points.time_mark, recorded=False),
]
basis_of = {"measured": masked.forecast(run).kind, "recorded": forecasts.BOUND}
card = ceilings.short_name(scene.recorded) if scene.recorded else "another machine"
names = {"measured": "this machine", "recorded": card}
skeleton.gap(
    [flop_counts.gap_text(run, scene)]
    if counting
    else [
        gaps.times_text(
            gaps.ratios(both, kind, prompt.LABELS, lambda mark: masked.bound(mark.series, int(mark.x), run)),
            where, NOT_ARITHMETIC, basis_of[kind],
        )
        for kind, where in names.items()
    ]
)  # fmt: skip
once, twice = (
    budget(model, prefill(scene.batch, tokens, scene.dtype, causal=causal)) for tokens in (T, 2 * T)
)
skeleton.misconception(
    "Attention is quadratic, so a prompt twice as long costs four times as much.",
    f"{longer_prompts.core_words(once, twice)} For {model.name} from T = {tokens_label(T)} to "
    f"{tokens_label(2 * T)} the core costs {times(twice.core_flops / once.core_flops)} as much, and the whole pass "
    f"{times(twice.matmul_flops / once.matmul_flops)}: projections, FFN and LM head hold "
    f"{share(1 - float(once.attention_share))} of a prompt's FLOPs at T = {tokens_label(T)} and grow only "
    "with the number of tokens.",
)
sides = [(timed, "this machine", False), (None if counting else scene.recorded, card, True)]
drawn = [
    (of, where) for of, where, recorded in sides
    if of and masked.marks(of, points.time_mark, recorded=recorded)
]  # fmt: skip
skeleton.limits(
    "FLOPs are counts, not times: formulas, and what PyTorch counts on the modules."
    + ("" if counting else f" {caveats(drawn, ('scaling',))} {HAND_COUNTED}")
)
skeleton.closing(PAGE)
