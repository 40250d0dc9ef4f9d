"""The crossover as lines: the batch at which a step reads as much cache as weights, against the context."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from lab.cost import catalog, serving
from lab.cost.cache import cache_bytes
from lab.cost.decode_layer import widest_attention
from lab.cost.deployment import Deployment
from lab.cost.shapes import ModelShape
from lab.cost.techniques import TECHNIQUES
from lab.view import capacity, charts, skeleton
from lab.view.axes import TOKENS, Axis, tokens_axis
from lab.view.counted import counted
from lab.view.format import bytes_text, digits, tokens_label, whole
from lab.view.frames import Extras
from lab.view.palette import Palette
from lab.view.scenario import Scenario

OWN, MULTI = "own", "mha"
FORMS = {MULTI: "MHA", "gqa": "GQA", "mqa": "MQA", "mla": "MLA"}
"""Forms of attention by the id of their technique; MHA is what the others are applied to."""
MODELS = ("llama-2-7b", "llama-3-70b", "mixtral-8x7b", "deepseek-v3")
"""Models that any other is compared with: MHA, GQA, a mixture, a latent."""
LOWEST, HIGHEST, STEP = -6, 20, 4
"""Powers of two of the batch axis: fixed, so that no scenario moves it."""
TOP = 4
"""The linear axis ends at so many times the scenario's own crossover."""


@dataclass(frozen=True)
class Variant:
    """One model whose crossover is drawn.

    Args:
        key: of its line.
        label: of its line, the same in every scenario.
        name: of its row and at its line's end.
        model: any shape.
    """

    key: str
    label: str
    name: str
    model: ModelShape

    def batch(self, context: int, dtype: str) -> float:
        """Sequences at which cache and weights are equal; infinity where no batch suffices."""
        return float(serving.crossover_batch(self.model, context, weight_type=dtype, k_type=dtype))

    def tokens(self, batch: int, dtype: str) -> float:
        """Context at which they are, at a batch; infinity where windows keep the cache below the weights."""
        return float(serving.crossover_tokens(self.model, batch, weight_type=dtype, k_type=dtype))


def own(model: ModelShape) -> Variant:
    """The scenario's model as it is."""
    return Variant(OWN, "as chosen", f"{model.name} ({heads_words(model)})", model)


def heads_words(model: ModelShape) -> str:
    """The form of a model's attention and its KV heads."""
    attention, _ = widest_attention(model)
    if attention.latent is not None:
        return attention.kind
    return f"{attention.kind}, {counted(attention.kv_heads, 'KV head')}"


def forms(model: ModelShape) -> list[Variant]:
    """The model with other forms of attention, MHA first; the one that it has already is left out."""
    has = widest_attention(model)[0].kind
    multi = capacity.as_multi_head(model) or model
    found = []
    for key, label in FORMS.items():
        shape = multi if key == MULTI else _applied(key, multi)
        if label == has or shape is None or widest_attention(shape)[0].kind != label:
            continue
        found.append(Variant(key, label, heads_words(shape), shape))
    return found


def _applied(technique: str, model: ModelShape) -> ModelShape | None:
    """The model after a technique; None where it does not apply."""
    try:
        return TECHNIQUES[technique].apply(Deployment(model=model, batch=1, context=1, max_context=1)).model
    except ValueError:
        return None


def others(model: ModelShape) -> list[Variant]:
    """Other models of the catalogue, the chosen one left out."""
    shapes = [catalog.model(key) for key in MODELS if key != model.id]
    return [Variant(one.id, one.name, one.name, one) for one in shapes]


def heads_takeaway(scene: Scenario) -> str:
    """Where cache and weights are equal, by form of attention."""
    T, model = scene.context, scene.model
    mine = own(model).batch(T, scene.dtype)
    told = [f"{one.label} {number(one.batch(T, scene.dtype))}" for one in forms(model)]
    compared = f"; with {', '.join(told)}" if told else ""
    return (
        f"At T = {tokens_label(T)} a step of {model.name} reads as much cache as weights at {batch_text(mine)} "
        f"({widest_attention(model)[0].kind}){compared}"
    )


def models_takeaway(scene: Scenario) -> str:
    """Where cache and weights are equal, by model."""
    T = scene.context
    mine = own(scene.model).batch(T, scene.dtype)
    rest = sorted((one.batch(T, scene.dtype), one.name) for one in others(scene.model))
    (low, first), (high, last) = rest[0], rest[-1]
    return (
        f"At T = {tokens_label(T)} a step of {scene.model.name} reads as much cache as weights at "
        f"{batch_text(mine)}; of the others, {first} at {batch_text(low)}, {last} at {batch_text(high)}"
    )


def batch_text(batch: float) -> str:
    """A crossover in words."""
    return f"batch {number(batch)}" if math.isfinite(batch) else "no batch"


def number(batch: float) -> str:
    """A crossover as a number."""
    return digits(batch, 2) if math.isfinite(batch) else "none"


def show(page: str, scene: Scenario, palette: Palette, *, by_model: bool, linear: bool) -> None:
    """Draw the crossover batch against the context.

    Args:
        page: the page's file name.
        scene: the scenario.
        palette: of the theme in use.
        by_model: other models, else other forms of the model's attention.
        linear: axes from zero.
    """
    T, dtype = scene.context, scene.dtype
    drawn = [*(others(scene.model) if by_model else forms(scene.model)), own(scene.model)]
    by_key = {one.key: one for one in drawn}
    labels = {key: catalog.model(key).name for key in MODELS} if by_model else FORMS
    *colours, last = palette.family(len(labels) + 1)
    series = [
        charts.Series(key, label, colour, width=2, end=by_key[key].name if key in by_key else "")
        for (key, label), colour in zip(labels.items(), colours, strict=True)
    ]
    as_chosen = scene.model.name if by_model else f"{widest_attention(scene.model)[0].kind}, as it is"
    series.append(charts.Series(OWN, "as chosen", last, width=4, end=as_chosen))
    grid = [max(1, T * place // 32) for place in range(1, 33)] if linear else list(TOKENS)
    lines = {one.key: [(float(t), one.batch(t, dtype)) for t in grid] for one in drawn}
    curves = {key: [(t, b) for t, b in line if math.isfinite(b)] for key, line in lines.items()}
    skeleton.takeaway(models_takeaway(scene) if by_model else heads_takeaway(scene))
    skeleton.badges(measured=False, recorded_on=None, extra=skeleton.beyond(scene))
    equal = by_key[OWN].batch(T, dtype)
    skeleton.chart(
        page, curves, [], series,
        Extras(
            limits_x=skeleton.context_limit(scene), marker_x=T,
            limits_y=[(float(scene.batch), f"batch {whole(scene.batch)}, as chosen")],
            notes=[(T, equal, batch_text(equal))] if math.isfinite(equal) else [],
        ),
        x=tokens_axis("context T (tokens)", linear_up_to=T if linear else None, room=0.27),
        y=batch_axis(TOP * equal if linear and math.isfinite(equal) else None), at=lambda t: whole(int(t)),
        value=batch_text, palette=palette,
        description="Batch at which a step reads as much cache as weights, against context, one line a model: "
        "above a line the cache is the larger part.",
    )  # fmt: skip


def batch_axis(top: float | None) -> Axis:
    """Batches on log2, below one sequence too; or from zero.

    Args:
        top: of a linear axis; None for the logarithmic one.
    """
    title = "B*: batch of equal cache and weights"
    if top is not None:
        ticks = tuple((top * place / 4, digits(top * place / 4, 2)) for place in range(5))
        return Axis(title, 0, top, ticks, None)
    powers = range(LOWEST + LOWEST % STEP, HIGHEST + 1, STEP)
    ticks = tuple((2.0**power, _power_text(power)) for power in powers)
    return Axis(title, 2.0**LOWEST, 2.0**HIGHEST, ticks, 2)


def _power_text(power: int) -> str:
    return f"1/{2**-power}" if power < 0 else whole(2**power)


def heading(scene: Scenario) -> str:
    """The crossover of the scenario's model as two numbers: a batch, and a context."""
    mine = own(scene.model)
    batch, tokens = mine.batch(scene.context, scene.dtype), mine.tokens(scene.batch, scene.dtype)
    context = f"T = {whole(math.ceil(tokens))}" if math.isfinite(tokens) else "no context"
    return (
        f"{scene.model.name}: cache and weights of a step are equal at {batch_text(batch)} for T = "
        f"{tokens_label(scene.context)}, at {context} for batch {whole(scene.batch)}"
    )


def rows(scene: Scenario) -> list[dict[str, str]]:
    """The crossover as numbers: the model, its other forms, then other models."""
    return [_row(one, scene) for one in _told(scene)]


def _told(scene: Scenario) -> Iterable[Variant]:
    model = scene.model
    return (own(model), *forms(model), *others(model))


def _row(one: Variant, scene: Scenario) -> dict[str, str]:
    at, tokens = one.batch(scene.context, scene.dtype), one.tokens(scene.batch, scene.dtype)
    other = one.key in FORMS
    token = cache_bytes(one.model, 1, scene.context, scene.dtype).bytes_per_new_token
    return {
        "model": f"{scene.model.name} with {one.name}" if other else one.name if one.key == OWN else
        f"{one.name} ({heads_words(one.model)})",
        "cache of a token": bytes_text(token, scene.binary),
        f"B* at T = {tokens_label(scene.context)}": digits(at, 3) if math.isfinite(at) else "none",
        f"T* at batch {whole(scene.batch)}": whole(math.ceil(tokens)) if math.isfinite(tokens) else "none",
    }  # fmt: skip
