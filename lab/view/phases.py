"""Where the quadratic term is: training, reading a prompt, and one decode step, side by side."""

from __future__ import annotations

import math

from lab.cost.budget import budget
from lab.cost.decode_layer import layer_cache_bytes, widest_attention
from lab.cost.flops import core_flops, layer_scores
from lab.cost.shapes import Workload, decode, prefill
from lab.cost.training import training_budget
from lab.view.format import bytes_text, digits, flops_text, whole
from lab.view.scenario import Scenario

ABSORBED, EXPANDED = "absorbed", "expanded"
"""Forms in which a latent is computed with, in a step and over a prompt; without one both are the same."""

TRAINING, PROMPT, DECODE = "training", "reading a prompt", "decode, one new token"
PHASES = (TRAINING, PROMPT, DECODE)
QUADRATIC = "quadratic term"


def shapes(scene: Scenario) -> list[dict[str, str]]:
    """The two shapes of attention in one layer: a prompt's, and a decode step's.

    Args:
        scene: the scenario.
    """
    works = {
        "prefill": (prefill(scene.batch, scene.context, scene.dtype), EXPANDED),
        "decode": (decode(scene.batch, scene.context, scene.dtype), ABSORBED),
    }
    return [_shape(scene, name, *one) for name, one in works.items()]


def _scores(work: Workload) -> str:
    """Queries by keys, in symbols and in numbers."""
    queries = "T" if work.q_len == work.context else whole(work.q_len)
    return f"{queries} × T = {whole(work.q_len)} × {whole(work.context)}"


def _shape(scene: Scenario, name: str, work: Workload, form: str) -> dict[str, str]:
    attention, _ = widest_attention(scene.model)
    kept = layer_scores(attention, work)
    flops = sum(core_flops(attention, kept, form).values())
    cache = layer_cache_bytes(attention, scene.batch, scene.context, scene.dtype)
    return {
        "shape": name,
        "scores per head": _scores(work),
        "of them kept by the mask": whole(kept // (work.batch * attention.heads)),
        "FLOPs, one layer": flops_text(flops),
        "its K and V": bytes_text(cache, scene.binary),
        "FLOPs for each byte of them": digits(flops / cache),
    }


def phases(scene: Scenario) -> list[dict[str, str]]:
    """Training, prompt and decode step: the scores of each, and what doubling the context multiplies.

    Args:
        scene: the scenario.
    """
    rows = []
    for name in PHASES:
        work, now = _work(name, scene, scene.context)
        _, longer = _work(name, scene, 2 * scene.context)
        rows.append(
            {
                "phase": name,
                "scores per head": _scores(work),
                "attention FLOPs, all layers": flops_text(now),
                "T doubles": f"× {digits(longer / now)}",
                QUADRATIC: "yes" if round(math.log2(longer / now)) > 1 else "no",
            }
        )
    return rows


def heading(model: str, rows: list[dict[str, str]]) -> str:
    """Where the quadratic term is, in words.

    Args:
        model: its name.
        rows: from `phases`.
    """
    found = [row["phase"] for row in rows if row[QUADRATIC] == "yes"]
    if found:
        return f"{model}: the quadratic term is in {' and in '.join(found)}, not in a decode step"
    return (
        f"{model}: no phase is quadratic here, for its layers see windows or chunks shorter than the context"
    )


def _work(phase: str, scene: Scenario, tokens: int) -> tuple[Workload, int]:
    """A phase's pass, and its FLOPs of QKᵀ and PV in all layers."""
    model = scene.model
    if phase == DECODE:
        step = decode(scene.batch, tokens, scene.dtype)
        return step, budget(model, step, latent_form=ABSORBED).core_flops
    work = prefill(scene.batch, tokens, scene.dtype)
    forward = budget(model, work).core_flops
    return work, round(training_budget(model, work).core_factor * forward) if phase == TRAINING else forward
