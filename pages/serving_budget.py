"""Serving budget: the card's memory as a stacked bar, the sequences that fit, latency against throughput."""

from dataclasses import replace

import streamlit as st

from lab.cost import BYTES_PER_ELEMENT, catalog
from lab.cost.predict import Ceilings
from lab.cost.storage import STORAGE
from lab.runs import Run, default_spec
from lab.view import bars, capacity, charts, controls, frames, here, latex, navigation, scenario, skeleton
from lab.view import ceilings as ceilings_of
from lab.view import serving_options as serving
from lab.view.axes import bytes_axis, seconds_axis
from lab.view.caveats import caveats
from lab.view.counted import counted, verb
from lab.view.format import bytes_text, digits, other_bytes, scaled, seconds_text, share, tokens_label, whole
from lab.view.frames import Extras
from lab.view.measure_panel import Panel

navigation.guard()

PAGE = "serving_budget"
FIRST_CARD = "h100-sxm"
COMPARED_CARDS = ("l4", "a100-sxm-80", "h200-sxm")
MEMORY, BY_TYPE, BY_CARD = "memory", "by_type", "by_card"
HERE = "here"
WERE_MHA = "were it MHA"
TOLD = ("q8_0 KV", WERE_MHA)
SECONDS = (1e-4, 1e1)  # of a chart without a card's line
# A CPU's memory beside a card's: so many times slower, and steps with a full memory so many times longer.
SLOWER, LONGER = 300, 10

scene, palette = scenario.current(), scenario.theme()
model, T = scene.model, scene.context
measured_dtype, dtype_reason = here.measured_type(scene.dtype, scene.device)
types = {scene.dtype: scene.dtype, **{name: name for name in serving.NARROWER}}


def text(count: float) -> str:
    """Bytes in the unit chosen."""
    return bytes_text(count, scene.binary)


def option(kv_type: str, memory: capacity.Capacity, name: str | None = None) -> serving.Option | None:
    """This scenario's model with one KV type."""
    return serving.option(name or f"{kv_type} KV", model, T, scene.dtype, kv_type, memory)


def sheet(chosen) -> tuple[Ceilings, bool]:
    """A card's data sheet, and whether it states a matmul rate for the scenario's type."""
    found = ceilings_of.of_card(chosen.id, scene.dtype)
    if found is not None:
        return found, True
    source = "; ".join(chosen.sources)
    return Ceilings(
        f"{chosen.name} data sheet", source, 1.0, float(chosen.memory_bandwidth_bytes_per_s)
    ), False


def curve(one: serving.Option | None, limits: Ceilings, with_flops: bool) -> list[tuple[float, float]]:
    """Tokens a second of the whole card and seconds a step, for batches up to the sequences that fit."""
    points = []
    for batch in serving.batches(one.sequences if one else 0):
        step = serving.step_bound(replace(one.deployment, batch=batch), limits, with_flops=with_flops)
        points.append((batch / step.seconds, step.seconds))
    return points


def memory_takeaway() -> str:
    """Sequences that fit, by KV type and were it MHA, and which capacity is meant."""
    if chosen.cards > 1:
        return (
            f"{model.name} does not fit: its weights alone, {text(chosen.weight_bytes)}, take {whole(chosen.cards)} "
            f"such cards, each filled to {share(capacity.USABLE)} of {memory.words}"
        )
    told = [one for one in options if one is not chosen and one.name in TOLD]
    others = [f"{one.name} {whole(one.sequences)}" for one in told]
    return (
        f"{chosen.fitting} of {model.name} at T = {tokens_label(T)} with {chosen.name} "
        f"{verb(chosen.sequences, 'fits', 'fit')} into "
        f"{share(capacity.USABLE)} of {memory.words}" + (f"; {', '.join(others)}" if others else "")
    )


def memory_chart() -> None:
    """The stacked bars up to the card's memory."""
    skeleton.takeaway(memory_takeaway())
    skeleton.badges(measured=False, recorded_on=None, extra=skeleton.beyond(scene))
    picture = serving.memory_bars(options, palette, scene.binary)
    top = max(segment.end for segment in picture.segments)
    x = bytes_axis("memory of the card", [top], binary=scene.binary, linear=True)
    x = replace(x, high=1.22 * top, ticks=tuple(tick for tick in x.ticks if tick[0] <= top))
    skeleton.show(
        bars.draw(
            picture, x=x, palette=palette, height_px=skeleton.HEIGHT_PX,
            description="A card's memory by use, one bar for each way to store the cache.",
        ),
        f"{PAGE}_chart",
    )  # fmt: skip


def families() -> dict[str, tuple[str, list[tuple[float, float]]]]:
    """The lines of the trade-off: label and points by key."""
    if shown == BY_TYPE:
        limits, with_flops = sheet(card)
        return {
            f"type_{one.deployment.k_type}": (one.name, curve(one, limits, with_flops))
            for one in options
            if one.deployment.model is model
        }
    compared = {key: catalog.card(key) for key in (*COMPARED_CARDS, card.id)}
    return {
        f"card_{key}": (one.name, curve(option(kv_type, capacity.known(one, meaning)), *sheet(one)))
        for key, one in compared.items()
    }


def trade_off(run: Run | None) -> None:
    """Seconds a step against tokens a second: small batches to the lower left, full memory at the end."""
    lines = families()
    own = ceilings_of.of_run(run, measured_dtype)
    memory_here = here.memory(scene.device)
    points = []
    if own and memory_here:
        space = capacity.Capacity(memory_here[0], memory_here[1])
        points = curve(option(kv_type, space), own, True)
    colours = palette.family(len(lines) + 1)
    # The line of this machine has its place before it is known: measuring moves nothing else.
    labels = {key: label for key, (label, _) in lines.items()} | {HERE: "this machine"}
    series = [
        charts.Series(key, label, colour, width=3.5 if key == HERE else 2.5)
        for (key, label), colour in zip(labels.items(), colours, strict=True)
    ]
    of_cards = {key: line for key, (_, line) in lines.items() if line}
    curves = of_cards | ({HERE: points} if points else {})
    skeleton.takeaway(trade_takeaway(curves))
    under = ["This machine: under its measured ceilings"] if points else []
    skeleton.badges(measured=False, recorded_on=None, extra=[*skeleton.beyond(scene), *under])
    every = [point for line in of_cards.values() for point in line]
    # From the cards alone, with room for a slower machine: its line, when it comes, moves nothing.
    rates, steps = [rate for rate, _ in every], [step for _, step in every]
    x = serving.rates_axis([*rates, min(rates, default=1.0) / SLOWER])
    y_values = [*steps, max(steps) * LONGER] if steps else SECONDS
    y = seconds_axis("time of one step: a token for every sequence", y_values)
    high = skeleton.HEIGHT_PX
    data = frames.bundle(
        curves, [], series, Extras(), x=x, y=y, height_px=high, at=lambda rate: f"{digits(rate)} tokens/s",
        value=seconds_text,
    )  # fmt: skip
    data["labels"] = serving.clear_of_lines(data["labels"], x, y, high)
    figure = charts.curves(
        data, series, x=x, y=y, palette=palette, height_px=high,
        description="Time of a decode step against tokens a second, from one sequence to a full card.",
    )  # fmt: skip
    skeleton.show(figure, f"{PAGE}_chart")


def trade_takeaway(curves: dict[str, list[tuple[float, float]]]) -> str:
    """What the step and the throughput of one sequence become when the card is full."""
    key = f"type_{kv_type}" if shown == BY_TYPE else f"card_{card.id}"
    if not curves.get(key):
        return f"{card.name}: not one sequence of {model.name} at T = {tokens_label(T)} fits"
    (first_rate, first), (last_rate, last) = curves[key][0], curves[key][-1]
    alone = f"{card.name}, {kv_type} KV: one sequence takes at least {seconds_text(first)} a token"
    if len(curves[key]) == 1:
        return f"{alone}, and no second one fits"
    return (
        f"{alone}; {counted(round(last_rate * last), 'sequence')} take {seconds_text(last)} and give "
        f"{digits(last_rate / first_rate, 2)} times the tokens a second"
    )


def draw(run: Run | None) -> None:
    """The chart that the reader chose."""
    if shown == MEMORY:
        memory_chart()
    else:
        trade_off(run)


def show_latency() -> None:
    """Pressing Measure turns to a chart on which this machine's line will appear."""
    if st.session_state.get(f"{PAGE}_shown") not in (BY_TYPE, BY_CARD):
        st.session_state[f"{PAGE}_shown"] = BY_TYPE


skeleton.opening(PAGE)
left, right = skeleton.columns()
with left:
    cards = {
        key: one.name.removeprefix("NVIDIA ") for key, one in catalog.hardware().items() if one.memory_bytes
    }
    card = catalog.card(controls.pick(PAGE, "card", "Card", {FIRST_CARD: cards[FIRST_CARD], **cards}))
    meanings_help = "The driver's total is what there is; the number on the box means GiB or 10⁹ bytes."
    meaning = controls.pick(PAGE, "meaning", "Its memory is", capacity.MEANINGS, meanings_help)
    fitting = {name: name for name in types if option(name, capacity.Capacity(1, "")) is not None}
    kv_type = controls.pick(PAGE, "kv", "KV cache in", fitting, "Scales counted, where the type has some.")
    views = {MEMORY: "memory", BY_TYPE: "latency, by KV type", BY_CARD: "latency, by card"}
    shown = controls.pick(PAGE, "shown", "Show", views)
    memory = capacity.known(card, meaning)
    chosen = option(kv_type, memory)
    mha = capacity.as_multi_head(model)
    others = [option(name, memory) for name in fitting if name != kv_type]
    were = [serving.option(WERE_MHA, mha, T, scene.dtype, kv_type, memory)] if mha else []
    options = [one for one in (chosen, *others, *were) if one is not None]
    st.metric(f"Sequences, T = {tokens_label(T)}", whole(chosen.sequences))
    if capacity.capacity(card, meaning) is None:
        st.caption(f"The driver's total of this card is not established; taken as {memory.words}.")
    spec = default_spec(
        "decode", device=scene.device, dtype=measured_dtype, heads=model.heads, kv_heads=model.kv_heads,
        head_dim=model.head_dim, threads=here.threads(), implementations=("sdpa",),
    )  # fmt: skip
    note = "Its ceilings put this machine among the latency lines."
    panel = Panel(PAGE, spec, scene.binary, note=f"{note} {dtype_reason}" if dtype_reason else note)
    panel.controls(on_press=show_latency)
with right:
    panel.live(draw)

filled = rf"{digits(capacity.USABLE)} \cdot {latex.byte_count(memory.bytes, scene.binary)}"
weights = latex.byte_count(chosen.weight_bytes, scene.binary)
skeleton.formula(
    r"n = \left\lfloor \frac{u\,M - W}{\text{KV}(T)} \right\rfloor \qquad "
    r"t(n) \ge \max\!\left(\frac{\text{FLOPs}(n)}{P},\ \frac{W_\text{read} + n\,\text{KV}(T)}{\text{BW}}\right)",
    [
        rf"n = \left\lfloor \frac{{{filled} - {weights}}}"
        rf"{{{latex.byte_count(chosen.sequence_bytes, scene.binary)}}} \right\rfloor = "
        rf"{latex.number(chosen.sequences)}"
        if chosen.weight_bytes <= memory.usable_bytes
        else rf"u\,M = {filled} \quad<\quad W = {weights}: \quad\text{{not one sequence}}"
    ],
)
limits, with_flops = sheet(card)
full = serving.step_bound(
    replace(chosen.deployment, batch=max(1, chosen.sequences)), limits, with_flops=with_flops
)
st.caption(
    f"u: the part of the memory that an engine takes, {share(capacity.USABLE)}, vLLM's default. "
    f"M: {memory.words}. W: {model.name}'s weights in {scene.dtype}; a step reads all but tables of which it "
    f"looks up a row. KV: {STORAGE[kv_type].what}. BW: the sheet's bandwidth, "
    f"{scaled(limits.bytes_per_s, 'B/s')}. "
    + (
        f"A step of batch {whole(chosen.sequences)} takes at least {seconds_text(full.seconds)}, limited by "
        f"{full.limited_by}"
        if chosen.sequences
        else f"Not one sequence fits. The weights alone take {whole(chosen.cards)} of these cards"
        if chosen.cards > 1
        else "Not one sequence fits beside the weights"
    )
    + ("." if with_flops else f"; for {scene.dtype} no rate of this card is established: bytes alone count.")
)
reserve_left = memory.bytes - memory.usable_bytes
st.markdown(
    f"**Activations** come out of the reserve of {text(reserve_left)}: at least "
    f"{text(chosen.activation_bytes)} for one prompt of {tokens_label(T)} being read and a step's logits"
    + (". They do not fit: less may be filled." if chosen.activation_bytes > reserve_left else ".")
)

run = panel.run()
own, found = ceilings_of.of_run(run, measured_dtype), here.memory(scene.device)
if own and found and (one := option(kv_type, capacity.Capacity(found[0], found[1]))) is not None:
    gap = (
        f"**This machine** copies {scaled(own.bytes_per_s, 'B/s')} and has {text(found[0])}: "
        f"{one.fitting} would fit by the same rule, {chosen.fitting} on {card.name}."
    )
else:
    gap = "Nothing has been measured on this machine yet: Measure takes its bandwidth and its matmul rate."
skeleton.gap(
    [
        gap,
        "A served step also launches kernels, samples, and waits for the scheduler: bounds are no forecasts. "
        "How far single attention calls lie above their bound is on the page *KV cache*.",
    ]
)
printed = capacity.capacity(card, capacity.SOLD)
skeleton.misconception(
    "The memory printed on the card divided by a sequence's cache is how many users it serves.",
    f"That would be {whole(printed.bytes // chosen.sequence_bytes)}, of {printed.words}. The weights take "
    f"{text(chosen.weight_bytes)} "
    f"({other_bytes(chosen.weight_bytes, scene.binary)}) first, and an engine leaves a reserve: "
    f"{chosen.fitting}. And a full card answers each more slowly: every step reads every cache.",
)
drawn = [(run, "this machine")] if run else []
skeleton.limits(
    f"{caveats(drawn, ('decode',))} One card, no parallel plan; every sequence at its full length; "
    f"{BYTES_PER_ELEMENT[scene.dtype]} bytes a parameter; a data sheet's rates, not an engine's."
)
skeleton.closing(PAGE)
