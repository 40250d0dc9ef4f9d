"""A whole model by module: predicted seconds where a calibration prices them, FLOPs for every model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.cost.budget import budget
from lab.cost.calibration import Calibration
from lab.cost.prediction_model import predict_gpt2
from lab.cost.shapes import ModelShape, Workload
from lab.view.bars import Bars, Part, Segment
from lab.view.format import share
from lab.view.palette import FUSED, NAIVE, WEIGHTS, Palette

ATTENTION, MATRICES, HEAD, PASSES = "attention", "weight matrices", "LM head", "elementwise"
EAGER, SDPA = "eager", "sdpa"
FAMILY = "gpt2"


@dataclass(frozen=True)
class Module:
    """One part of a pass: its name, its kind, its amount in seconds or FLOPs, what limits it."""

    name: str
    part: str
    amount: float
    limited_by: str | None = None


def timed(
    model: ModelShape, calibration: Calibration, batch: int, tokens: int, attention: str, logits: str
) -> list[Module]:
    """Predicted seconds by module of a GPT-2, the longest first.

    Args:
        model: of the GPT-2 family.
        calibration: of the device, in the number type.
        batch: sequences.
        tokens: of each, within the model's limit.
        attention: "eager" or "sdpa".
        logits: "all" or "last".
    """
    name = EAGER if attention == EAGER else fused_kernel(calibration)
    found = predict_gpt2(model, calibration, batch=batch, tokens=tokens, attention=name, logits=logits)
    modules = [
        Module(term.name, _part(term.name, term.flops), term.seconds, term.limited_by) for term in found.terms
    ]
    return sorted(modules, key=lambda module: -module.amount)


def fused_kernel(calibration: Calibration) -> str:
    """The fused kernel that a calibration knows, which is what SDPA takes on its device."""
    known = [name.partition("/")[0] for name in calibration.fused]
    return known[0] if known else "flash"


def counted(model: ModelShape, work: Workload, logits: str) -> list[Module]:
    """FLOPs by matrix product, all layers, the most first."""
    sums: dict[tuple[str, str], int] = {}
    for term in budget(model, work, logits=logits).terms:
        part = {"attention core": ATTENTION, "recurrent state": ATTENTION, "LM head": HEAD}.get(
            term.part, MATRICES
        )
        name = {"lm_head": f"LM head, {logits} logits"}.get(term.name, f"{term.part}: {term.name}")
        name = term.part if part == ATTENTION else name
        sums[name, part] = sums.get((name, part), 0) + term.total_flops
    found = [Module(name, part, float(flops)) for (name, part), flops in sums.items() if flops]
    return sorted(found, key=lambda module: -module.amount)[:12]


def amount_of(modules: list[Module], part: str) -> float:
    """The seconds or FLOPs of one kind of module."""
    return sum(module.amount for module in modules if module.part == part)


def bars(modules: list[Module], palette: Palette, text: Callable[[float], str], *, eager: bool) -> Bars:
    """One row a module.

    Args:
        modules: the largest first.
        palette: of the theme in use.
        text: writes an amount.
        eager: whether attention is computed in separate passes.
    """
    colours = {
        ATTENTION: palette.roles[NAIVE if eager else FUSED], MATRICES: palette.roles[WEIGHTS],
        HEAD: palette.text, PASSES: palette.ramp[1],
    }  # fmt: skip
    total = sum(module.amount for module in modules)
    used = [part for part in colours if any(module.part == part for module in modules)]
    segments, ends = [], []
    for module in modules:
        limit = f", limited by {module.limited_by}" if module.limited_by else ""
        what = f"{text(module.amount)}, {share(module.amount / total)} of the pass{limit}"
        segments.append(Segment(module.name, module.part, 0, module.amount, what))
        ends.append((module.name, module.amount, f"{text(module.amount)}, {share(module.amount / total)}"))
    return Bars(
        [module.name for module in modules], [Part(part, colours[part]) for part in used], segments, ends
    )


def _part(name: str, flops: int) -> str:
    if "attention, " in name:
        return ATTENTION
    if name.startswith("LM head"):
        return HEAD
    return MATRICES if flops else PASSES
