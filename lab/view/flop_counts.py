"""FLOPs that PyTorch counted on a model's real modules, beside the lines that the formulas draw."""

from __future__ import annotations

from lab.cost.budget import budget
from lab.cost.shapes import prefill
from lab.runs import Point, Run
from lab.view import points
from lab.view.format import flops_text, times, tokens_label, whole
from lab.view.frames import Mark
from lab.view.scenario import Scenario

LENGTHS = (256, 1024, 4096)
SERIES = {"attention core": "core", "feed-forward": "ffn", "projections": "projections", "LM head": "head"}


def counted(run: Run | None, scene: Scenario, phase: str) -> list[Point]:
    """The points of a run that counted this model's modules.

    Args:
        run: of this machine; None for none.
        scene: the scenario.
        phase: "prefill" or "decode".
    """
    if run is None or run.spec.model != scene.model.id:
        return []
    return [
        point for point in run.points
        if point.experiment == "flops" and point.batch == scene.batch and point.variant
        and point.variant.startswith(f"{phase}: ") and "counted_flops" in point.measures
    ]  # fmt: skip


def marks(run: Run | None, scene: Scenario, phase: str) -> list[Mark]:
    """The counted FLOPs by part; a token stands at the context it makes."""
    found = []
    for point in counted(run, scene, phase):
        series = SERIES[str(point.variant).partition(": ")[2]]
        at = float(point.kv_len + (phase == "decode"))
        flops = point.measures["counted_flops"]
        found.append(Mark(series, points.kind_of(point, recorded=False), at, flops, flops, flops))
    return found


def gap_text(run: Run | None, scene: Scenario) -> str:
    """Whether counter and formulas agree, part by part, and which pairs eager attention computes."""
    if run is not None and run.spec.model == scene.model.id:
        refused = {point.reason for point in run.points if point.status == "refused" and point.reason}
        if refused:
            return f"**{scene.model.name} was not counted:** {'; '.join(sorted(refused))}."
    both = [point for phase in ("prefill", "decode") for point in counted(run, scene, phase)]
    if not both:
        return f"The modules of {scene.model.name} have not been counted here yet: press Measure on FLOPs by part."
    wrong = [
        f"{point.variant} at T = {tokens_label(point.kv_len)}: {point.reason}"
        for point in both
        if not point.accepted
    ]
    text = (
        f"**{scene.model.name}'s modules as transformers builds them, counted by PyTorch:** "
        f"{whole(len(both) - len(wrong))} of {whole(len(both))} counts equal the formulas to the last FLOP, the "
        "attention core's over all pairs."
    )
    if wrong:
        return f"{text} Not equal: {'; '.join(wrong)}."
    longest = max(point.kv_len for point in both)
    core = next(p for p in both if p.variant == "prefill: attention core" and p.kv_len == longest)
    flops = core.measures["counted_flops"]
    needed = budget(scene.model, prefill(scene.batch, longest, scene.dtype, causal=True)).core_flops
    return (
        f"{text} Eager attention multiplies every pair and masks afterwards: at T = {tokens_label(longest)} its "
        f"core is {flops_text(flops)}, {times(flops / needed)} what the model's masks need."
    )
