"""Whole model: GPT-2's time by module or a model's FLOPs, its tensors by size, and what the logits take."""

import streamlit as st

from lab.cost import BYTES_PER_ELEMENT
from lab.cost.budget import budget
from lab.cost.shapes import Workload, weight_bytes
from lab.runs import Run, default_spec
from lab.view import (
    bars,
    controls,
    here,
    latex,
    least_pass,
    modules,
    navigation,
    plain_axes,
    scenario,
    skeleton,
    tensor_sizes,
    whole_pass,
)
from lab.view.axes import bytes_axis, seconds_axis
from lab.view.caveats import caveats
from lab.view.ceilings import short_name
from lab.view.format import bytes_text, flops_text, seconds_text, share, times, whole
from lab.view.measure_panel import Panel

navigation.guard()

PAGE = "whole_model"
MODULES, LENGTHS = "modules", "lengths"

scene, palette = scenario.current(), scenario.theme()
model, B = scene.model, scene.batch
measured_dtype, dtype_reason = here.measured_type(scene.dtype, scene.device)
view = whole_pass.WholePass(scene, measured_dtype)
tokens = view.tokens


def work() -> Workload:
    """One pass over the prompt."""
    return Workload(B, tokens, tokens, scene.dtype, True)


def shown_modules() -> tuple[list[modules.Module], str | None]:
    """Seconds by module where a device can price them, with its name; else FLOPs by product."""
    for recorded, name in ((True, view.card), (False, "this machine")):
        calibration = view.calibration(recorded=recorded)
        if calibration is not None:
            return modules.timed(model, calibration, B, tokens, attention, logits), name
    return modules.counted(model, work(), logits), None


def modules_takeaway(found: list[modules.Module], device: str | None) -> str:
    """The LM head's share beside attention's."""
    total = sum(module.amount for module in found)
    head, core = (share(modules.amount_of(found, part) / total) for part in (modules.HEAD, modules.ATTENTION))
    which = f"the LM head over {'all positions' if logits == 'all' else 'the last position'}"
    if device is None:
        return (
            f"{model.name}, {whole(tokens)} tokens: {which} is {head} of the FLOPs, the attention core {core}"
        )
    known = view.recorded().get((attention, tokens)) if logits == "all" and device == view.card else None
    took = f", {seconds_text(known)} recorded" if known else ""
    return (
        f"{whole(tokens)} tokens of {model.name} on {device}: {which} takes {head}, attention {core} of the "
        f"predicted {seconds_text(total)}{took}"
    )


def modules_chart() -> None:
    """The modules as bars."""
    found, device = shown_modules()
    skeleton.takeaway(modules_takeaway(found, device))
    dtype = whole_pass.RECORDED_TYPE if device == view.card else measured_dtype
    extra = [f"Times in {dtype}"] if device else []
    skeleton.badges(
        measured=False, recorded_on=view.card if device == view.card and view.rows() else None,
        extra=[*skeleton.beyond(scene), *extra],
    )  # fmt: skip
    top = [found[0].amount * 1.45]
    if device:
        x, text = seconds_axis("predicted time, all layers", top, linear=True), seconds_text
    else:
        x, text = plain_axes.counts_of("FLOPs, all layers", top, "FLOPs", linear=True), flops_text
    figure = bars.draw(
        modules.bars(found, palette, text, eager=attention == modules.EAGER), x=x, palette=palette,
        description="Time or FLOPs of each module of a whole pass, the largest first.", height_px=430,
    )  # fmt: skip
    skeleton.show(figure, f"{PAGE}_chart")


def draw(run: Run | None) -> None:
    """The heading and the chart that the reader chose."""
    if shown == MODULES:
        modules_chart()
    else:
        shows = whole_pass.show if view.timed else least_pass.show
        shows(PAGE, view, run, palette, linear=linear)


def show_lengths() -> None:
    """Pressing Measure turns to the chart on which its points will appear."""
    st.session_state[f"{PAGE}_shown"] = LENGTHS


def text(count: float) -> str:
    """Bytes in the unit chosen."""
    return bytes_text(count, scene.binary)


skeleton.opening(PAGE)
left, right = skeleton.columns()
with left:
    by_module = "time by module" if view.timed else "FLOPs by product"
    shown = controls.pick(PAGE, "shown", "Show", {MODULES: by_module, LENGTHS: "time by length"})
    attention = modules.EAGER
    if view.timed and shown == MODULES:
        ways = {modules.EAGER: "Eager", modules.SDPA: "SDPA"}
        attention = controls.choice(PAGE, "attention", "Attention", ways)
    elif view.only_counted and shown == MODULES:
        st.caption(view.only_counted)
    linear = shown == LENGTHS and controls.linear(PAGE, "Linear axes run from zero to the longest prompt.")
    logits = controls.choice(
        PAGE, "logits", "Logits of", {"all": "All", "last": "Last"},
        "Training and scoring need the logits of all positions; generating needs the last one's.",
    )  # fmt: skip
    every = budget(model, work())
    st.metric("Logits, all positions", text(every.logits_bytes), help=f"{whole(every.logits_bytes)} bytes")
    spec = default_spec(
        "model", device=scene.device, dtype=measured_dtype, threads=here.threads(), quick=True
    )
    of_gpt2 = (
        None if model.id == whole_pass.RECORDED_MODEL
        else f"Measures {whole_pass.MEASURED_MODEL} at its own sizes; the points are drawn beside {model.name}'s lines."
    )  # fmt: skip
    panel = Panel(PAGE, spec, scene.binary, note=" ".join(filter(None, (of_gpt2, dtype_reason))) or None)
    panel.controls(on_press=show_lengths)
with right:
    panel.live(draw)

tensors = tensor_sizes.ranked(model, work())
all_logits, last_logits, scores = (
    tensor_sizes.size_of(tensors, name)
    for name in (tensor_sizes.ALL_LOGITS, tensor_sizes.LAST_LOGITS, tensor_sizes.SCORE_TENSOR)
)
beside = (
    f", {times(all_logits / scores)} the size of a layer's score tensor ({text(scores)})" if scores else ""
)
skeleton.takeaway(
    f"The logits of all positions are {text(all_logits)}{beside}; those of the last position are "
    f"{text(last_logits)}"
)
skeleton.show(
    bars.draw(
        tensor_sizes.bars(tensors, palette, text),
        x=bytes_axis("one tensor", [tensors[0].bytes * 1.3], binary=scene.binary, linear=True),
        palette=palette,
        description="The tensors of one pass, the largest first.", height_px=110 + 40 * len(tensors),
    ),
    f"{PAGE}_tensors",
)  # fmt: skip
width = BYTES_PER_ELEMENT[scene.dtype]
st.caption(
    f"{model.name}, batch {B}, {whole(tokens)} tokens, {scene.dtype}. Its weights, "
    f"{text(weight_bytes(model, width))}, stand beside these. A fused kernel never writes the scores down."
)

skeleton.formula(
    r"\text{logits} = B\,T\,V\,b \qquad \text{scores} = B\,h\,T^2\,b \qquad \text{LM head} = 2\,B\,T\,d\,V",
    [
        rf"\text{{logits}} = {B} \cdot {latex.number(tokens)} \cdot {latex.number(model.vocab)} \cdot {width}"
        rf"\ \text{{B}} = {latex.byte_count(all_logits, scene.binary)}",
        rf"\text{{LM head}} = 2 \cdot {B} \cdot {latex.number(tokens)} \cdot {latex.number(model.hidden)} "
        r"\cdot "
        rf"{latex.number(model.vocab)} = {latex.flop_count(every.lm_head_flops)}, \quad "
        rf"{latex.number(round(100 * every.lm_head_flops / every.matmul_flops))}\,\%\ \text{{of the pass}}",
    ],
)


def faster() -> str:
    """The most that attention in no time would gain, where the modules are timed; their FLOPs do not say it."""
    found, device = shown_modules()
    if device is None:
        return " "
    part = modules.amount_of(found, modules.ATTENTION) / sum(module.amount for module in found)
    how = "SDPA" if attention == modules.SDPA else "eager"
    return (
        f" On {device} {how} attention takes {share(part)} of the predicted time: done in no time at all, the "
        f"pass would be {times(1 / (1 - part))} as fast. FLOPs do not show it. "
    )


run = panel.run()
skeleton.gap(filter(None, (view.gap(), view.peaks(text), view.measured_words(run))))
total = every.matmul_flops
skeleton.misconception(
    "A faster attention kernel makes the model that much faster.",
    f"Only its share.{faster()}At {whole(tokens)} tokens the attention core holds "
    f"{share(float(every.attention_share))} of the FLOPs of {model.name}; the LM head over all positions "
    f"holds {share(every.lm_head_flops / total)}. While generating, its last row alone is needed.",
)
drawn = [(run, "this machine")] if run and view.measured(run) else []
drawn += [(scene.recorded, short_name(scene.recorded))] if scene.recorded and view.rows() else []
skeleton.limits(
    f"A whole pass was recorded for one model, in {whole_pass.RECORDED_TYPE}. {caveats(drawn, ('model',))}"
)
skeleton.closing(PAGE)
