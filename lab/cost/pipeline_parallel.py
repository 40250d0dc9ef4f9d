"""Pipeline parallelism on paper: consecutive layers on each rank, hidden states passed on.

Source: Huang et al., GPipe, arXiv:1811.06965, section 2.3 (the idle share); even stages, the first ones a
    layer
larger where the layers do not divide.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from lab.cost.budget import budget
from lab.cost.cache import CacheLayers, Storage, default_conv_type, layers_of, states_of
from lab.cost.exact import Number
from lab.cost.formulas import element_bytes
from lab.cost.ranks import Message, Plan, Rank
from lab.cost.shapes import ModelShape, Workload
from lab.cost.storage import whole
from lab.cost.weights import stored_weights


def stage_orders(model: ModelShape, stages: int) -> tuple[tuple[int, ...], ...]:
    """Share out the layers.

    Args:
        model: the shape.
        stages: how many, at most one a layer.

    Returns:
        For each stage the kinds of its layers, as in `ModelShape.order`.

    Raises:
        ValueError: more stages than layers.
    """
    count = whole("stages", stages)
    if count > model.layers:
        raise ValueError(f"stages must be at most the number of layers, {model.layers}, got {stages}")
    small, larger = divmod(model.layers, count)
    found, first = [], 0
    for stage in range(count):
        last = first + small + (stage < larger)
        found.append(model.order[first:last])
        first = last
    return tuple(found)


def pipeline_parallel(
    model: ModelShape,
    work: Workload,
    stages: int,
    *,
    weight_type: str | Number = "fp16",
    k_type: Storage = "fp16",
    v_type: Storage | None = None,
    source_tokens: int | None = None,
) -> Plan:
    """Spread a model over ranks by consecutive layers.

    Args:
        model: the shape.
        work: the pass whose communication is counted; its dtype is that of the messages.
        stages: ranks, at most one a layer.
        weight_type: a dtype name, or bytes of one parameter.
        k_type: storage of K.
        v_type: storage of V; None for that of K.
        source_tokens: length of the other sequence, for cross-attention.

    Returns:
        The plan: the first stage holds the embedding, the last the final norm and the LM head (a tied table
        stands on both).

    Raises:
        ValueError: a number of stages that does not fit.
    """
    orders = stage_orders(model, stages)
    core = [layer.core_flops for layer in budget(model, work, source_tokens=source_tokens).layers]
    ends = _ends(model, len(orders))
    states = work.batch * work.q_len * model.hidden * element_bytes(work.dtype)
    ranks = []
    for stage, order in enumerate(orders):
        parameters = ends[stage] + sum(model.kinds[number].parameters for number in order)
        kept = _cache(model, order, k_type, v_type, source_tokens)
        sends = (Message("hidden states to the next stage", states, 1),) if stage < len(orders) - 1 else ()
        ranks.append(
            Rank(
                parameters=parameters,
                weight_bytes=stored_weights(parameters, weight_type),
                kv_bytes=sum(int(layers.bytes(work.batch, work.context)) for layers in kept),
                core_flops=sum(core[number] for number in order),
                messages=sends,
            )
        )
    again = model.embedding_parameters if model.tied_embeddings and len(orders) > 1 else 0
    return Plan(
        scheme=f"pipeline parallel over {len(orders)}",
        ranks=tuple(ranks),
        replicated={"tied token table": again} if again else {},
        replicated_kv_bytes=0,
        notes=(f"idle share with m microbatches: {len(orders) - 1} / (m + {len(orders) - 1})",),
    )


def _ends(model: ModelShape, stages: int) -> list[int]:
    """Parameters outside the layers, by stage."""
    ends = [0] * stages
    ends[0] += model.embedding_parameters + model.position_parameters
    ends[-1] += model.final_norm_parameters + model.lm_head_parameters
    if model.tied_embeddings and stages > 1:
        ends[-1] += model.embedding_parameters
    return ends


def _cache(
    model: ModelShape,
    order: tuple[int, ...],
    k_type: Storage,
    v_type: Storage | None,
    source_tokens: int | None,
) -> list[CacheLayers]:
    kept = []
    for number, layers in Counter(order).items():
        kind = model.kinds[number]
        kept += [
            layers_of(attention, layers, k_type, v_type, source_tokens=source_tokens)
            for attention in kind.attentions
        ]
        if kind.recurrent is not None:
            kept.append(states_of(kind.recurrent, layers, "fp32", default_conv_type(k_type)))
    return kept


def idle_share(stages: int, microbatches: int) -> Fraction:
    """Give the share of time that stages wait for each other when one batch passes through.

    Args:
        stages: of the pipeline.
        microbatches: pieces the batch is cut into.

    Returns:
        (stages - 1) / (microbatches + stages - 1), with stages that take equally long.

    Raises:
        ValueError: a number below 1.

    Source: Huang et al., GPipe, arXiv:1811.06965, section 2.3.
    """
    waiting = whole("stages", stages) - 1
    return Fraction(waiting, whole("microbatches", microbatches) + waiting)
