"""A training step in time: what is kept after each layer forward, at the head, and on the way back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pandas as pd

from lab.cost.activations import stored_activations
from lab.cost.budget import budget
from lab.cost.deployment import Deployment
from lab.cost.formulas import attention_pairs
from lab.cost.predict import Ceilings, bound_seconds
from lab.cost.shapes import ModelShape, Workload, decode, prefill, weight_bytes
from lab.cost.storage import STORAGE
from lab.cost.terms import TERMS, prefill_budget, step_bytes, step_flops
from lab.cost.training import training_budget
from lab.view.axes import Axis
from lab.view.charts import LABEL_HEIGHT_PX, Series
from lab.view.counted import verb
from lab.view.format import digits, whole
from lab.view.frames import Curve, frame, spread_apart

MATERIALISED, FUSED, CHECKPOINTED = "materialised", "fused", "checkpointed"
WAYS: dict[str, dict[str, Any]] = {
    MATERIALISED: {"attention": "materialised", "checkpointing": "none"},
    FUSED: {"attention": "fused", "checkpointing": "none"},
    CHECKPOINTED: {"attention": "fused", "checkpointing": "full"},
}
"""Ways to train that are compared: options of lab.cost.training."""


def kept_over_step(model: ModelShape, work: Workload, way: str) -> list[tuple[float, float]]:
    """The bytes kept while a training step goes through the layers and back.

    Args:
        model: a shape whose stored activations are modelled.
        work: a pass over whole sequences.
        way: a key of WAYS.

    Returns:
        (place, bytes): after 0 … L layers forward, at the head (L + 1), and back to 2·L + 1. A layer that is
        computed again weighs in full while its gradients are formed.

    Raises:
        ValueError: layers that are not modelled.
    """
    stored = stored_activations(model, work, **WAYS[way])
    in_full = stored_activations(model, work, **(WAYS[way] | {"checkpointing": "none"}))
    kept = [stored.layers[number].bytes for number in model.order]
    again = [in_full.layers[number].bytes if stored.recomputing_bytes else 0 for number in model.order]
    held, points = 0, [(0.0, 0.0)]
    for place, size in enumerate(kept, start=1):
        held += size
        points.append((float(place), float(held)))
    points.append((float(len(kept) + 1), float(held + stored.head_bytes)))
    for place, (size, recomputed) in enumerate(zip(reversed(kept), reversed(again), strict=True)):
        if recomputed:
            points.append((len(kept) + 1.5 + place, float(held + recomputed)))
        held -= size
        points.append((float(len(kept) + 2 + place), float(held)))
    return points


def peak_labels(
    curves: Mapping[str, Curve],
    series: Sequence[Series],
    y: Axis,
    height_px: int,
    text: Callable[[float], str],
    clear_at: float | None = None,
) -> pd.DataFrame:
    """A label above each line's highest point, which all lines reach at the same place.

    Args:
        curves: the lines by series key.
        series: their names.
        y: the vertical axis.
        height_px: height of the chart.
        text: writes a height.
        clear_at: a place at whose top no line runs, where the labels stand one below the other; None to put
            each above its own peak.
    """
    peaks = [max(curves[item.key], key=lambda point: point[1]) for item in series]
    gap = LABEL_HEIGHT_PX / height_px
    if clear_at is not None:
        first = sorted(range(len(peaks)), key=lambda place: -peaks[place][1])
        places = [1 - gap * (1 + first.index(place)) for place in range(len(peaks))]
        peaks = [(clear_at, height) for _, height in peaks]
    else:
        places = spread_apart([y.position(height) + gap for _, height in peaks], gap)
    rows = (
        (item.key, f"{item.label} {text(height)}", at, y.value(place))
        for item, (at, height), place in zip(series, peaks, places, strict=True)
    )
    return frame("labels", rows)


@dataclass(frozen=True)
class Doubling:
    """One quantity and what it is multiplied by."""

    name: str
    unit: str
    value: float
    context: Fraction
    batch: Fraction


def doublings(deployment: Deployment, ceilings: Ceilings) -> list[Doubling]:
    """Each term when the context doubles, and when the batch does.

    Args:
        deployment: a model at work; its longest sequence is its context.
        ceilings: of the device whose least times are given.

    Returns:
        The terms of lab.cost.terms that are modelled and depend on either, then attention of a decode step, FLOPs
        and kept activations of a training step, and the least times of a prompt and of a decode step.
    """
    quantities: dict[str, tuple[str, Any]] = {name: (term.unit, term.value) for name, term in TERMS.items()}
    quantities.pop("answer steps")
    quantities |= {
        "attention FLOPs of a step": ("FLOPs", _step_core),
        "training FLOPs": ("FLOPs", lambda d: training_budget(d.model, _work(d)).total_flops),
        "activations kept by the layers": (
            "bytes",
            lambda d: stored_activations(d.model, _work(d)).layer_bytes,
        ),
        "latency of a prompt, products and weights alone": ("seconds", lambda d: _prompt_bound(d, ceilings)),
        "latency of a step, at least": ("seconds", lambda d: _step_bound(d, ceilings)),
    }
    twice = 2 * deployment.context
    longer = replace(deployment, context=twice, max_context=twice)
    wider = replace(deployment, batch=2 * deployment.batch)
    found = []
    for name, (unit, value) in quantities.items():
        now, long, wide = value(deployment), value(longer), value(wider)
        if now:
            found.append(Doubling(name, unit, now, *(Fraction(one) / Fraction(now) for one in (long, wide))))
    return found


def _step_core(deployment: Deployment) -> int:
    """QKᵀ and PV of one new token for every sequence, all layers, a latent absorbed."""
    work = decode(deployment.batch, deployment.context, deployment.dtype)
    return budget(deployment.model, work, latent_form="absorbed").core_flops


def _prompt_bound(deployment: Deployment, ceilings: Ceilings) -> float:
    """The least time of reading every prompt: all products, or all weights once."""
    weights = weight_bytes(deployment.model, STORAGE[deployment.dtype].row(1))
    return bound_seconds(prefill_budget(deployment).matmul_flops, weights, ceilings).seconds


def _step_bound(deployment: Deployment, ceilings: Ceilings) -> float:
    """The least time of one decode step of the batch."""
    return bound_seconds(step_flops(deployment), step_bytes(deployment), ceilings).seconds


def each_layer(count: int) -> str:
    """How many layers something holds for."""
    return "one layer" if count == 1 else f"each of {whole(count)} layers"


def window_words(model: ModelShape, context: int) -> str:
    """Why attention FLOPs of all layers do not grow with the square; nothing where they do."""
    kinds = [(kind.attention, layers) for kind, layers in model.layer_groups if kind.attention]
    held = sum(
        layers for one, layers in kinds if one.span != "full" and (one.window or one.chunk or 0) < 2 * context
    )
    if not held:
        return ""
    pairs = [int(attention_pairs(length, length, True)) for length in (context, 2 * context)]
    return (
        f" Attention is counted over all {model.layers} layers, of which {held} {verb(held, 'sees', 'see')} a "
        f"window or chunk shorter than {whole(2 * context)} tokens; that of a layer that sees everything grows "
        f"× {digits(pairs[1] / pairs[0])}."
    )


def _work(deployment: Deployment) -> Workload:
    return prefill(deployment.batch, deployment.context, deployment.dtype)
