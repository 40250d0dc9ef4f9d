"""Roofline: arithmetic, bandwidth or launch, and how T and batch move attention between them."""

import streamlit as st

from lab.cost.predict import LAUNCH
from lab.runs import Run, default_spec
from lab.view import (
    calibrations,
    ceilings,
    controls,
    gaps,
    here,
    latex,
    navigation,
    plain_axes,
    points,
    prompt,
    roofline,
    scenario,
    skeleton,
)
from lab.view.calibration_panel import CalibrationPanel
from lab.view.caveats import HAND_COUNTED, caveats
from lab.view.format import bytes_text, digits, flops_text, scaled, seconds_text, share, tokens_label
from lab.view.frames import Extras, Mark
from lab.view.layer_kinds import shown_layer
from lab.view.measure_panel import last_run
from lab.view.palette import FUSED, NAIVE

navigation.guard()

PAGE = "roofline"
MEASURED_EXPERIMENTS = ("scaling", "decode")
WHY = "Below the line: tiles that a mask half fills, too few pieces of work, caches, launches."

scene, palette = scenario.current(), scenario.theme()
model, T, B = scene.model, scene.context, scene.batch
measured_dtype, dtype_reason = here.measured_type(scene.dtype, scene.device)


def rate_text(rate: float) -> str:
    """FLOP/s in words."""
    return scaled(rate, "FLOP/s")


def own_runs() -> list[Run | None]:
    """The runs of this machine whose points stand under its roof."""
    return [last_run(experiment, scene.device) for experiment in MEASURED_EXPERIMENTS]


def place_of(roof: roofline.Roofs) -> str:
    """Where points under a roof were measured, in words; a data sheet measures nothing."""
    if device == roofline.RECORDED and scene.recorded is not None:
        return ceilings.short_name(scene.recorded)
    return roof.name.removesuffix(" data sheet")


def marks_of(roof: roofline.Roofs) -> list[Mark]:
    """The measured points of the device chosen."""
    if device == roofline.HERE:
        return roofline.marks(scene, roof, own_runs(), recorded=False, causal=causal)
    source = [scene.recorded] if device == roofline.RECORDED else []
    return roofline.marks(scene, roof, source, recorded=True, causal=causal)


def placed(roof: roofline.Roofs) -> dict[str, roofline.Place]:
    """The three kinds of work at the scenario."""
    return {
        role: roofline.place(
            role, roof, roofline.shape(scene, role, T, roof.dtype, roof.kind, causal=causal),
            roofline.latent(scene, role, roof),
        )
        for role in roofline.LABELS
    }  # fmt: skip


def takeaway(roof: roofline.Roofs) -> str:
    """What limits each kind of work at the scenario."""
    if roof.limits is None:
        if panel.active:
            return "This machine is being calibrated: its roof comes when all rates are known"
        return "This machine's roof is not known yet: press Measure to calibrate it"
    found = placed(roof)
    said = [f"{roofline.LABELS[role]} by {at.limited_by}" for role, at in found.items()]
    return f"On {roof.name} at T = {tokens_label(T)}, batch {B}, the least time is set for {', '.join(said)}"


def draw(run: Run | None) -> None:
    """The heading, the badges and the chart."""
    roof = roofline.roofs(scene, device, run, measured_dtype)
    marks = marks_of(roof)
    ways = roofline.ways(scene, roof, causal=causal)
    curves = ways | roofline.roof_lines(roof, ways)
    skeleton.takeaway(takeaway(roof))
    stand_in = ceilings.stand_in(scene.recorded, scene.dtype) if device == roofline.RECORDED else []
    extra = [] if roof.limits is None or roof.measured else stand_in or ["No measured roof: the data sheet's"]
    if device == roofline.HERE and calibrations.noise(run):
        extra.append("Noisy calibration: the machine was busy")
    if roofline.latent(scene, roofline.DECODE, roof):
        extra.append("A decode step reads the latent, for all heads at once")
    skeleton.badges(
        measured=device == roofline.HERE and bool(marks or roof.measured),
        recorded_on=place_of(roof) if device == roofline.RECORDED and marks else None,
        extra=[
            *skeleton.beyond(scene),
            *prompt.both_widths(model),
            f"Rings: T = {tokens_label(T)}",
            *extra,
            *points.looks(marks),
        ],
    )
    rings = placed(roof).values() if roof.limits else ()
    notes = [(at.intensity, at.rate, "") for at in rings]
    rates = roofline.rates_range(curves.values())
    skeleton.chart(
        PAGE, curves, marks, roofline.series(palette), Extras(notes=notes), x=roofline.intensity_axis(),
        y=plain_axes.counts_of("FLOPs a second, one layer", rates, "FLOP/s"),
        at=lambda x: f"{digits(x)} FLOPs a byte", value=rate_text, palette=palette,
        description="Attainable FLOPs a second against FLOPs a byte: roofs, and attention's ways as T grows.",
    )  # fmt: skip


def show_here() -> None:
    """Pressing Measure turns to this machine, whose roof it finds."""
    st.session_state[f"{PAGE}_device"] = roofline.HERE


skeleton.opening(PAGE)
left, right = skeleton.columns()
with left:
    devices = {roofline.RECORDED: "card compared with", roofline.HERE: "this machine"}
    devices |= roofline.cards(scene.dtype)
    device = controls.pick(PAGE, "device", "Under the roof of", devices, "Measured roofs, or a data sheet's.")
    causal = controls.causal(PAGE)
    spec = default_spec("calibrate", device=scene.device, dtype=measured_dtype, threads=here.threads())
    panel = CalibrationPanel(PAGE, spec, scene.binary, note=dtype_reason)
    roof = roofline.roofs(scene, device, panel.run(), measured_dtype)
    if roof.limits:
        st.metric(
            "Ridge, FLOPs a byte", digits(roof.limits.ridge_flops_per_byte),
            help=f"{rate_text(roof.limits.flops_per_s)} over {scaled(roof.limits.bytes_per_s, 'B/s')}",
        )  # fmt: skip
    panel.controls(on_press=show_here)
    layer = shown_layer(model)
    if layer:
        st.caption(layer)
    if device != roofline.HERE and panel.run():
        st.caption("This machine is calibrated: its roof is under **this machine** above.")
with right:
    panel.live(draw)

under = roof if roof.limits else roofline.roofs(scene, roofline.RECORDED, None, measured_dtype)
limits = under.limits
found = placed(under)
regimes = f"hree regimes under {under.name}: work, traffic and launches, whichever takes longest"
st.subheader(
    f"T{regimes}"
    if roof.limits
    else f"This machine is not calibrated, so what follows is not its own: t{regimes}",
    anchor=False,
)
rows = [
    {
        "work": roofline.LABELS[role], "pass": term.name, "FLOPs": flops_text(term.flops),
        "bytes": bytes_text(term.bytes_moved, scene.binary), "least time": seconds_text(term.seconds),
        "limited by": term.limited_by,
    }
    for role, at in found.items() for term in at.bound.terms
]  # fmt: skip
if under.call_launch_s:
    start = {
        "pass": "start of the call",
        "least time": seconds_text(under.call_launch_s),
        "limited by": LAUNCH,
    }
    rows += [
        {"work": roofline.LABELS[role], "FLOPs": "", "bytes": "", **start}
        for role, at in found.items()
        if at.limited_by == LAUNCH
    ]
skeleton.table(rows)
if under.call_launch_s:
    launch = f"{seconds_text(under.call_launch_s)} for a whole call"
else:
    launch = f"{seconds_text(limits.launch_s)} for each pass" if limits.launch_s else "not known"
st.caption(f"Launch time of {under.name}: {launch}. Its ceilings: {limits.source}.")

fused, decode = found[FUSED], found[roofline.DECODE]
skeleton.formula(
    r"I = \frac{\text{FLOPs}}{\text{bytes}} \qquad t \ge \max\!\left(\frac{\text{FLOPs}}{P},\ "
    r"\frac{\text{bytes}}{\text{BW}},\ t_\text{launch}\right) \qquad "
    r"I_\text{ridge} = \frac{P}{\text{BW}}",
    [
        rf"I_\text{{ridge}} = \frac{{{latex.quantity(rate_text(limits.flops_per_s))}}}"
        rf"{{{latex.quantity(scaled(limits.bytes_per_s, 'B/s'))}}} = {digits(limits.ridge_flops_per_byte)}",
        rf"I_\text{{fused}} = {latex.quantity(digits(fused.intensity))}, \quad "
        rf"I_\text{{naive}} = {digits(found[NAIVE].intensity)}, "
        rf"\quad I_\text{{decode}} = {digits(decode.intensity)}",
    ],
)


def gap_text(roof: roofline.Roofs) -> str:
    """How far below their line the measured points lie."""
    marks, where = marks_of(roof), place_of(roof)
    if roof.limits is None or not marks:
        return f"Nothing measured on {where} fits this scenario."
    lines = roofline.ways(scene, roof, causal=causal)

    def expected(mark: Mark) -> float | None:
        return next((rate for x, rate in lines[mark.series] if abs(x / mark.x - 1) < 1e-9), None)

    kind = "measured" if device == roofline.HERE else "recorded"
    ratios = gaps.ratios(marks, kind, roofline.LABELS, expected)
    if not ratios:
        return f"No measured point on {where} has a context of the axis."
    parts = [
        f"{label}: {share(min(own))} to {share(max(own))}"
        for label in dict.fromkeys(ratio.label for ratio in ratios)
        for own in [[ratio.value for ratio in ratios if ratio.label == label]]
    ]
    return f"**{where[:1].upper()}{where[1:]}**, rate reached over the line: {'; '.join(parts)}. {WHY}"


skeleton.gap([gap_text(roof)])
skeleton.misconception(
    "Attention is limited by memory bandwidth.",
    f"It depends on the work. At T = {tokens_label(T)} and batch {B} under {under.name}, a whole prompt in a "
    f"fused kernel does {digits(fused.intensity)} FLOPs a byte and is limited by {fused.limited_by}; a "
    f"decode step does {digits(decode.intensity)} and is limited by {decode.limited_by}. A larger batch brings "
    "more of both and leaves the decode step's intensity as it is.",
)
runs = own_runs() if device == roofline.HERE else [scene.recorded] if device == roofline.RECORDED else []
recorded = device == roofline.RECORDED
drawn = [
    (run, place_of(roof)) for run in runs
    if run and roofline.marks(scene, roof, [run], recorded=recorded, causal=causal)
]  # fmt: skip
skeleton.limits(f"{caveats(drawn, ('scaling', 'decode'))} {HAND_COUNTED}")
skeleton.closing(PAGE)
