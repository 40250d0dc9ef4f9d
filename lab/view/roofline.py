"""A roofline: attainable FLOP/s against FLOPs a byte, with attention's ways across it as T grows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lab.cost import catalog
from lab.cost.chapter_card import SHEET_ID, sheet_calibration
from lab.cost.decode_layer import decode_operation, widest_attention
from lab.cost.layers import Attention
from lab.cost.predict import LAUNCH, Bound, Ceilings, bound_seconds, operations_bound
from lab.cost.traffic import Operation, operations
from lab.runs import Point, Run
from lab.runs.reference import CHAPTER_RUN_ID
from lab.view import calibrations, ceilings, charts, here
from lab.view.axes import TOKENS, Axis
from lab.view.format import digits
from lab.view.frames import Mark
from lab.view.palette import FUSED, LIMIT, NAIVE, Palette
from lab.view.points import time_mark
from lab.view.scenario import Scenario

DECODE, MEASURED_ROOF, SHEET_ROOF = "decode", "measured", "sheet"
LABELS = {NAIVE: "naive prefill", FUSED: "fused prefill", DECODE: "decode step"}
ROOF_LABELS = {MEASURED_ROOF: "calibrated roof", SHEET_ROOF: "data sheet"}
RECORDED, HERE = "recorded", "here"
THIS_MACHINE = "this machine"
_POWERS = range(-1, 6)
_LONGEST = 6.6  # exponent at which the axis ends: the labels of the roofs stand beyond the last tick
_IMPLEMENTATION = {NAIVE: "naive", FUSED: "flash", DECODE: "flash"}
_EXPERIMENTS = {"scaling": (NAIVE, FUSED), "selftest": (NAIVE, FUSED), "decode": (DECODE,)}


@dataclass(frozen=True)
class Place:
    """Where a piece of work stands under a roof.

    Args:
        intensity: FLOPs a byte.
        rate: FLOP/s at best.
        bound: the least time of its passes.
        limited_by: what takes longest.
    """

    intensity: float
    rate: float
    bound: Bound
    limited_by: str


@dataclass(frozen=True)
class Roofs:
    """The ceilings of a device, as it was measured and as its data sheet has them.

    Args:
        name: the device in words.
        dtype: of the matmul rate.
        kind: "cpu" or "cuda", as lab.cost names devices.
        measured: None where it was not measured.
        sheet: None where no sheet is known.
        call_launch_s: seconds that starting a whole call takes; None where not known, or known by operation.
    """

    name: str
    dtype: str
    kind: str
    measured: Ceilings | None
    sheet: Ceilings | None
    call_launch_s: float | None = None

    @property
    def limits(self) -> Ceilings | None:
        """The ceilings that work is placed under: the measured ones where there are any."""
        return self.measured or self.sheet

    def drawn(self) -> dict[str, Ceilings]:
        """The roofs there are, by key."""
        both = {MEASURED_ROOF: self.measured, SHEET_ROOF: self.sheet}
        return {key: found for key, found in both.items() if found is not None}


def cards(dtype: str) -> dict[str, str]:
    """The names of the cards whose sheets state a rate for a type, by id."""
    known = catalog.hardware().values()
    return {card.id: card.name for card in known if ceilings.of_card(card.id, dtype) is not None}


def roofs(scene: Scenario, device: str, run: Run | None, dtype_here: str) -> Roofs:
    """The ceilings of the device that the reader chose.

    Args:
        scene: the scenario.
        device: RECORDED, HERE or a card's id.
        run: that calibrated this machine; None for none.
        dtype_here: measured on this machine.
    """
    if device == HERE:
        found = calibrations.of_run(run, dtype_here) if run else None
        own = calibrations.ceilings_of(found) if found else None
        return Roofs(THIS_MACHINE, dtype_here, here.cost_device(scene.device), own, None)
    if device == RECORDED and scene.recorded is not None:
        known = calibrations.of_recorded(scene.recorded, scene.dtype)
        if known is not None:
            return Roofs(
                ceilings.short_name(scene.recorded), scene.dtype, "cuda", calibrations.ceilings_of(known),
                _recorded_sheet(scene.recorded, scene.dtype), calibrations.call_launch_s(known),
            )  # fmt: skip
    sheet = ceilings.of_card(device, scene.dtype) if device in catalog.hardware() else None
    sheet = sheet or ceilings.reference(scene.recorded if device == RECORDED else None, scene.dtype)
    return Roofs(sheet.name, scene.dtype, "cuda", None, sheet)


def _recorded_sheet(run: Run, dtype: str) -> Ceilings | None:
    """The sheet of the chapter's card; its fp16 rate, which it does not print, as lab.cost derives it."""
    if run.run_id != CHAPTER_RUN_ID or dtype not in ("fp16", "fp32"):
        return None
    return calibrations.ceilings_of(sheet_calibration(catalog.card(SHEET_ID), dtype))


def attainable(intensity: float, limits: Ceilings) -> float:
    """The most FLOP/s that work of an intensity reaches, starting it left aside."""
    moved = 10**12  # enough that a launch weighs nothing
    flops = round(intensity * moved)
    return flops / bound_seconds(flops, moved, limits).seconds


def shape(scene: Scenario, role: str, tokens: int, dtype: str, kind: str, *, causal: bool) -> dict[str, Any]:
    """One layer's attention: a whole prompt, or one new token of each sequence."""
    model = scene.model
    return {
        "batch": scene.batch, "heads": model.heads, "kv_heads": model.kv_heads,
        "q_len": 1 if role == DECODE else tokens, "kv_len": tokens, "head_dim": model.head_dim,
        "dtype": dtype, "causal": causal or role == DECODE, "device": kind,
    }  # fmt: skip


def latent(scene: Scenario, role: str, roof: Roofs) -> Attention | None:
    """The latent attention whose cached rows a decode step reads; None of other work and models.

    On this machine a step reads K and V of every head: PyTorch's SDPA, which is measured, takes no latent.
    """
    attention, _ = widest_attention(scene.model)
    reads_it = role == DECODE and attention.latent is not None and roof.name != THIS_MACHINE
    return attention if reads_it else None


def passes(role: str, call: dict[str, Any], absorbed: Attention | None = None) -> tuple[Operation, ...]:
    """The operations of a call; of latent attention in the form that is cached, where that is given."""
    if absorbed is None:
        return tuple(operations(_IMPLEMENTATION[role], **call))
    names = {"batch": "batch", "context": "kv_len", "dtype": "dtype", "device": "device"}
    return (decode_operation(absorbed, **{name: call[field] for name, field in names.items()}),)


def place(role: str, roof: Roofs, call: dict[str, Any], absorbed: Attention | None = None) -> Place:
    """Where one attention call stands: its own FLOPs and bytes, and the time that it needs at least.

    Args:
        role: a key of LABELS.
        roof: of the device.
        call: from `shape`.
        absorbed: see `latent`.

    Raises:
        ValueError: nothing is known of the device.
    """
    if roof.limits is None:
        raise ValueError(f"no ceilings of {roof.name} are known")
    flops, intensity = counts(role, call, absorbed)
    bound = operations_bound(passes(role, call, absorbed), roof.limits)
    launch = roof.call_launch_s or 0.0
    limited_by = LAUNCH if launch > bound.seconds else bound.limited_by
    return Place(intensity, flops / max(launch, bound.seconds), bound, limited_by)


def counts(role: str, call: dict[str, Any], absorbed: Attention | None = None) -> tuple[int, float]:
    """The FLOPs of a call, and how many they are for each byte moved."""
    steps = passes(role, call, absorbed)
    flops = sum(step.flops for step in steps)
    return flops, flops / sum(step.read_bytes + step.written_bytes for step in steps)


def ways(scene: Scenario, roof: Roofs, *, causal: bool) -> dict[str, list[tuple[float, float]]]:
    """The way of each kind of work across the roofline, from the shortest context to the longest."""
    if roof.limits is None:
        return {}
    found = {}
    for role in LABELS:
        calls = [shape(scene, role, T, roof.dtype, roof.kind, causal=causal) for T in TOKENS]
        places = [place(role, roof, call, latent(scene, role, roof)) for call in calls]
        found[role] = [(at.intensity, at.rate) for at in places]
    return found


def roof_lines(
    roof: Roofs, drawn: dict[str, list[tuple[float, float]]]
) -> dict[str, list[tuple[float, float]]]:
    """The roofs as lines with a corner at the ridge; they end where the ways do: labels stand apart."""
    far = max((x for way in drawn.values() for x, _ in way), default=1.0)
    found = {}
    for key, limits in roof.drawn().items():
        ridge = limits.ridge_flops_per_byte
        places = sorted({10.0 ** _POWERS[0], ridge, min(max(far, 8 * ridge), 10.0 ** _POWERS[-1])})
        found[key] = [(x, attainable(x, limits)) for x in places]
    return found


def marks(
    scene: Scenario, roof: Roofs, runs: Iterable[Run | None], *, recorded: bool, causal: bool
) -> list[Mark]:
    """Measured points at the scenario's batch and heads: counted FLOPs a byte, counted FLOPs a second."""
    found = []
    for run in runs:
        for point in run.points if run else ():
            role = _role(point)
            if role is None:
                continue
            call = shape(scene, role, point.kv_len, roof.dtype, roof.kind, causal=causal)
            same = all(getattr(point, name) == value for name, value in call.items() if name != "device")
            mark = time_mark(point, role, recorded=recorded) if same else None
            if mark is None or not mark.low or mark.kind == "refused":
                continue
            flops, intensity = counts(role, call)
            rates = (flops / mark.y, flops / mark.high, flops / mark.low)
            found.append(Mark(role, mark.kind, intensity, *rates, noisy=mark.noisy))
    return found


def _role(point: Point) -> str | None:
    fused = point.implementation in ("sdpa", "flash", "efficient", "cudnn")
    roles = _EXPERIMENTS.get(point.experiment, ())
    if DECODE in roles:
        return DECODE if fused else None
    role = FUSED if fused else NAIVE if point.implementation == "naive" else None
    return role if role in roles else None


def series(palette: Palette) -> list[charts.Series]:
    """The ways in the colours of their roles, the roofs in that of limits."""
    return [
        charts.role_series(NAIVE, NAIVE, LABELS[NAIVE], palette),
        charts.role_series(FUSED, FUSED, LABELS[FUSED], palette),
        charts.Series(DECODE, LABELS[DECODE], palette.ramp[3], (5, 2), "diamond", 4),
        charts.role_series(MEASURED_ROOF, LIMIT, ROOF_LABELS[MEASURED_ROOF], palette, 2.5),
        charts.Series(SHEET_ROOF, ROOF_LABELS[SHEET_ROOF], palette.roles[LIMIT], (2, 3), "stroke", 1.5),
    ]


def intensity_axis() -> Axis:
    """FLOPs a byte from a tenth to a hundred thousand, and room for labels."""
    ticks = tuple((10.0**power, digits(10.0**power)) for power in _POWERS)
    return Axis("arithmetic intensity (FLOPs per byte)", 10.0 ** _POWERS[0] / 2, 10.0**_LONGEST, ticks, 10)


def rates_range(lines: Iterable[list[tuple[float, float]]]) -> tuple[float, float]:
    """The least and the largest rate of the chart; steady while points arrive."""
    drawn = [rate for line in lines for _, rate in line if math.isfinite(rate)]
    floor = max(drawn) / 1e5 if drawn else 1e8
    return (max(floor, min(drawn)) / 2, max(drawn)) if drawn else (1e8, 1e13)
