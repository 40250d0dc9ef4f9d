"""The T×T tensor: its size, and the real peak of each implementation."""

import streamlit as st

from lab.cost import BYTES_PER_ELEMENT, attention_flops, catalog, mask_bytes, score_bytes
from lab.cost.calls import AttentionCall
from lab.cost.chapter_card import SHEET_ID
from lab.cost.traffic import live_stages, peak_basis, peak_extra_bytes
from lab.runs import Point, Run, default_spec
from lab.view import (
    ceilings,
    charts,
    controls,
    gaps,
    here,
    latex,
    navigation,
    points,
    prompt,
    scenario,
    skeleton,
    squares,
)
from lab.view.axes import TOKENS, Axis, bytes_axis, tokens_axis
from lab.view.caveats import HAND_COUNTED, caveats
from lab.view.format import bytes_text, digits, flops_text, other_bytes, tokens_label, whole
from lab.view.frames import Extras, Mark
from lab.view.layer_kinds import shown_layer
from lab.view.measure_panel import Panel
from lab.view.palette import FUSED, MATH, NAIVE, NAMES, role_of

navigation.guard()

PAGE = "score_tensor"
LENGTHS = (512, 1024, 2048, 4096)
LONGEST_MEASURED = 16_384
SCORES = "scores"
IMPLEMENTATION = {NAIVE: "naive", MATH: "math", FUSED: "flash"}
LABELS = {SCORES: "one score tensor"} | NAMES

scene, palette = scenario.current(), scenario.theme()
model = scene.model
device = here.cost_device(scene.device)
CARDS = {SHEET_ID: skeleton.CHAPTERS_CARD} | {
    card.id: card.name for card in catalog.hardware().values() if card.memory_bytes and card.id != SHEET_ID
}
# Two limits nearer than this part of the axis share one line of words.
CLOSE = 0.06
measured_dtype, dtype_reason = here.measured_type(scene.dtype, scene.device)


def shape(tokens: int) -> dict:
    """The attention of one layer over a whole prompt, with as many threads as the run shown had."""
    return {
        "batch": scene.batch, "heads": model.heads, "kv_heads": model.kv_heads, "q_len": tokens,
        "kv_len": tokens, "head_dim": model.head_dim, "dtype": scene.dtype, "causal": causal,
        "threads": here.threads(panel.run()), "device": device,
    }  # fmt: skip


def tensor(tokens: int) -> int:
    """One score tensor, in bytes."""
    return score_bytes(scene.batch, model.heads, tokens, tokens, BYTES_PER_ELEMENT[scene.dtype])


def peak(role: str, tokens: int) -> int:
    """The predicted peak beyond the inputs, in bytes; of the score tensor, the tensor itself."""
    return tensor(tokens) if role == SCORES else peak_extra_bytes(IMPLEMENTATION[role], **shape(tokens))


def text(count: float) -> str:
    """Bytes in the unit chosen."""
    return bytes_text(count, scene.binary)


def both_units(count: float) -> str:
    """Bytes in the unit chosen, and in the other."""
    return f"{text(count)} ({other_bytes(count, scene.binary)})"


def fused_peak(tokens: int) -> str:
    """The fused kernel's predicted peak, with the device and the threads that it is predicted for."""
    return f"{text(peak(FUSED, tokens))} {here.computed_by(device, here.threads(panel.run()))}"


def beyond_memory() -> str | None:
    """A recorded peak that the chapter's card has no room for, and how it could be measured all the same."""
    run, held = scene.recorded, catalog.card(SHEET_ID).memory_bytes
    largest = max((mark.y for mark in marks_of(run, recorded=True)), default=0)
    if run is None or ceilings.short_name(run) != skeleton.CHAPTERS_CARD or held is None or largest <= held:
        return None
    return (
        f"The largest recorded peak, {text(largest)}, is more than the {text(held)} of the card: it ran under "
        f"{run.environment['os']}, which moves what does not fit into the computer's own memory."
    )


def marks_of(run: Run | None, *, recorded: bool) -> list[Mark]:
    """The points of a run at this scenario's shape; types of the same width weigh the same."""
    leave_out = ("q_len", "kv_len", "threads", "device")
    wanted = {name: value for name, value in shape(1).items() if name not in leave_out}

    def series_of(point: Point) -> str | None:
        return role_of(point.implementation) if point.experiment == "memory" else None

    return points.marks(run, wanted, series_of, points.peak_mark, recorded=recorded, same_type=False)


def takeaway() -> str:
    """How many score tensors each implementation holds at the scenario's context."""
    size, T = tensor(scene.context), scene.context
    return (
        f"At T = {tokens_label(T)} naive attention holds {digits(peak(NAIVE, T) / size)} score tensors at "
        f"once: {text(peak(NAIVE, T))}. The fused kernel gives the same answer in {fused_peak(T)}"
    )


def memories() -> list[tuple[str, int, str]]:
    """The card chosen, then the device that would measure: its name, bytes and kind."""
    own = here.memory(scene.device)
    found = [(CARDS[chosen], int(catalog.card(chosen).memory_bytes or 0), "cuda")]
    return found if own is None else [*found, (own[1], own[0], device)]


def limits_y(y: Axis) -> list[tuple[float, str]]:
    """The memories as lines; where two lie close together the upper one carries the words of both."""
    ordered = sorted(memories(), key=lambda memory: -memory[1])
    words = [f"{name}, {text(held)}" for name, held, _ in ordered]
    places = [y.position(held) for _, held, _ in ordered]
    if len(places) > 1 and abs(places[0] - places[1]) < CLOSE:
        words = [f"{words[0]}; {words[1]}", ""]
    return [(float(held), said) for (_, held, _), said in zip(ordered, words, strict=True)]


def longest(role: str, held: int, kind: str) -> int:
    """The longest context whose peak beyond the inputs a memory holds, on a kind of device."""
    name, call = IMPLEMENTATION[role], shape(1) | {"device": kind}
    return squares.longest(lambda T: peak_extra_bytes(name, **call | {"q_len": T, "kv_len": T}), held)


def slope() -> list[tuple[float, float, int, str]]:
    """A triangle in the free space between the quadratic lines and the linear one."""
    corner = TOKENS[-4]
    height = (tensor(2 * corner) * peak(FUSED, 2 * corner)) ** 0.5 / 2
    return [(corner, height, 2, "T ×2 → bytes ×4")]


def draw(run: Run | None) -> None:
    """The heading, the badges and the chart."""
    grid = [max(1, scene.context * place // 32) for place in range(1, 33)] if linear else TOKENS
    curves = {key: [(T, float(peak(key, T))) for T in grid] for key in LABELS}
    recorded, own = marks_of(scene.recorded, recorded=True), marks_of(run, recorded=False)
    skeleton.takeaway(takeaway())
    skeleton.badges(
        measured=bool(own),
        recorded_on=ceilings.short_name(scene.recorded) if scene.recorded and recorded else None,
        extra=[*skeleton.beyond(scene), *prompt.both_widths(model)],
    )
    x = tokens_axis("context T (tokens)", linear_up_to=scene.context if linear else None, room=0.22)
    values = [y for curve in curves.values() for _, y in curve]
    y = bytes_axis("peak beyond the inputs, one layer", values, binary=scene.binary, linear=linear)
    extras = Extras(
        limits_x=skeleton.context_limit(scene), limits_y=limits_y(y), marker_x=scene.context,
        slopes=() if linear else slope(),
    )  # fmt: skip
    skeleton.chart(
        PAGE, curves, [*recorded, *own], series, extras, x=x, y=y, at=lambda T: whole(int(T)),
        value=both_units, palette=palette,
        description="Peak memory of one layer's attention against context: predicted lines, measured points.",
    )  # fmt: skip


series = [charts.Series(SCORES, LABELS[SCORES], palette.text, width=1.2)]
series += [charts.role_series(role, role, LABELS[role], palette) for role in IMPLEMENTATION]
skeleton.opening(PAGE)
left, right = skeleton.columns()
with left:
    causal = controls.causal(PAGE)
    linear = controls.linear(PAGE)
    chosen = controls.pick(PAGE, "card", "Memory of", CARDS, "Drawn as a line beside this machine's.")
    st.metric(
        f"One score tensor, T = {tokens_label(scene.context)}",
        text(tensor(scene.context)),
        help=f"{other_bytes(tensor(scene.context), scene.binary)}; {whole(tensor(scene.context))} bytes",
    )
    own_length = (scene.context,) if LENGTHS[-1] < scene.context <= LONGEST_MEASURED else ()
    spec = default_spec(
        "memory", device=scene.device, dtype=measured_dtype, lengths=(*LENGTHS, *own_length),
        batches=(scene.batch,), heads=model.heads, kv_heads=model.kv_heads, head_dim=model.head_dim,
        causal=causal, threads=here.threads(),
    )  # fmt: skip
    panel = Panel(PAGE, spec, scene.binary, note=dtype_reason)
    panel.controls()
    layer = shown_layer(model)
    if layer:
        st.caption(layer)
with right:
    panel.live(draw)

T = scene.context
first, last = (squares.FACTORS[place] for place in (0, -1))
skeleton.takeaway(
    f"T tokens are a square of T×T scores: {last} times the tokens are {last**2} of the same squares, "
    f"{text(tensor(first * T))} become {text(tensor(last * T))}"
)
skeleton.show(squares.figure(T, tensor, text, palette), f"{PAGE}_squares")
fits = {
    f"{text(held)} ({name})": {role: longest(role, held, kind) for role in IMPLEMENTATION}
    for name, held, kind in memories()
}
st.subheader(
    "The largest T whose scores fit, written down: "
    + ", ".join(f"{whole(found[NAIVE])} tokens in {memory}" for memory, found in fits.items()),
    anchor=False,
)
skeleton.table(
    {"implementation": LABELS[role]}
    | {f"largest T in {memory}": f"{whole(found[role])} tokens" for memory, found in fits.items()}
    for role in IMPLEMENTATION
)
st.caption("The peak of one layer's attention beyond its inputs: no weights and nothing else in the memory.")

width = BYTES_PER_ELEMENT[scene.dtype]
masks = 2 * mask_bytes(scene.context, scene.context, 1) if causal else 0
skeleton.formula(
    r"S = B\,h\,T^2\,b \qquad \text{peak}_\text{naive} = 2\,S" + (r" + 2\,T^2" if causal else ""),
    [
        rf"S = {scene.batch} \cdot {model.heads} \cdot {latex.number(scene.context)}^2 "
        rf"\cdot {width}\ \text{{B}} "
        rf"= {latex.byte_count(tensor(scene.context), scene.binary)}",
        rf"\text{{peak}}_\text{{naive}} = 2 \cdot {latex.byte_count(tensor(scene.context), scene.binary)}"
        + (rf" + {latex.byte_count(masks, scene.binary)}" if causal else "")
        + rf" = {latex.byte_count(peak(NAIVE, scene.context), scene.binary)}",
    ],
)
if causal:
    st.caption(
        f"The {text(masks)} beside the scores are two masks of one byte a pair: the causal one, and its negation "
        "that names what is left out."
    )
where_computed = here.computed_by(device, here.threads(panel.run()))
with st.expander("What is alive at the peak"):
    for role, name in IMPLEMENTATION.items():
        stages = live_stages(name, AttentionCall(**shape(scene.context)))
        stage = max(stages, key=lambda item: item.live_bytes)
        tensors = ", ".join(f"{what} {text(size)}" for what, size in stage.tensors.items() if size)
        st.markdown(
            f"**{LABELS[role]}** {where_computed}, during {stage.name}: {tensors}. "
            f"This list {peak_basis(name, device)}."
        )

run = panel.run()
every = [*marks_of(scene.recorded, recorded=True), *marks_of(run, recorded=False)]
card = ceilings.short_name(scene.recorded) if scene.recorded else "another machine"
skeleton.gap(
    gaps.peaks_text(gaps.ratios(every, kind, LABELS, lambda mark: peak(mark.series, int(mark.x))), where)
    for kind, where in (("measured", "this machine"), ("recorded", card))
)
past = beyond_memory()
if past is not None:
    st.markdown(past)
needed = attention_flops(
    scene.batch, model.heads, scene.context, scene.context, model.head_dim, causal,
    head_dim_v=model.head_dim_v,
)  # fmt: skip
skeleton.misconception(
    "A fused kernel makes attention linear.",
    f"It makes the *memory* linear: {fused_peak(scene.context)} instead of "
    f"{text(peak(NAIVE, scene.context))} at T = {tokens_label(scene.context)}. The arithmetic stays "
    f"quadratic, {flops_text(needed)} either way in a layer that sees the whole context, and so does the time.",
)
drawn = [(run, "this machine")] if run and marks_of(run, recorded=False) else []
drawn += [(scene.recorded, card)] if scene.recorded and marks_of(scene.recorded, recorded=True) else []
skeleton.limits(f"{caveats(drawn, ('memory',))} {HAND_COUNTED}")
skeleton.closing(PAGE)
