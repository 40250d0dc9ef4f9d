"""The terms a technique can change, each one function of a deployment.

All terms are counts: FLOPs, bytes, passes, steps. None stands for what the lab does not model for a shape.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lab.cost.budget import Budget, budget
from lab.cost.deployment import Deployment, needed_bytes, reserve, reserved_bytes
from lab.cost.formulas import element_bytes
from lab.cost.layers import Attention
from lab.cost.serving import decode_traffic
from lab.cost.shapes import decode, prefill, weight_bytes
from lab.cost.storage import whole
from lab.cost.traffic import Operation, operations, peak_extra_bytes


class Term(NamedTuple):
    """A quantity of a deployment: unit, how to compute it (None: not modelled for this shape), what it is."""

    unit: str
    value: Callable[[Deployment], int | None]
    meaning: str


def prefill_budget(deployment: Deployment) -> Budget:
    """Count the FLOPs of reading every prompt, logits of the last position only.

    Args:
        deployment: a model at work.

    Returns:
        The budget of one forward pass over batch · context tokens.
    """
    work = prefill(deployment.batch, deployment.context, deployment.dtype)
    return budget(deployment.model, work, logits="last")


def step_flops(deployment: Deployment) -> int:
    """Count the FLOPs of one step that adds a token to every sequence.

    Args:
        deployment: a model at work.

    Returns:
        FLOPs: of one new token each with a cache; of the whole sequences again without one.
    """
    if not deployment.cached:
        return prefill_budget(deployment).matmul_flops
    work = decode(deployment.batch, deployment.context, deployment.dtype)
    return budget(deployment.model, work, logits="last").matmul_flops


def attention_passes(deployment: Deployment, attention: Attention) -> tuple[Operation, ...] | None:
    """List the passes one layer's attention makes over memory in prefill.

    Args:
        deployment: a model at work.
        attention: the layer's attention.

    Returns:
        The passes on a CUDA device; None where K and V differ in width, which traffic.py does not model.
    """
    if attention.head_dim != attention.head_dim_v:
        return None
    passes = operations(deployment.implementation, **_call(deployment, attention))
    return fuse_elementwise(passes) if deployment.fused_elementwise else passes


def fuse_elementwise(passes: Sequence[Operation]) -> tuple[Operation, ...]:
    """Fuse what lies between the two matrix products: read the scores once, write the probabilities once.

    Args:
        passes: of a naive implementation: QKᵀ, elementwise passes, PV.

    Returns:
        Three passes; the mask is computed from positions inside the fused one.
    """
    first, last = passes[0], passes[-1]
    scores = first.written_bytes
    return (first, Operation("scale, mask and softmax in one", 0, scores, scores), last)


def _call(deployment: Deployment, attention: Attention) -> dict[str, Any]:
    return {
        "batch": deployment.batch,
        "heads": attention.heads,
        "kv_heads": attention.kv_heads,
        "q_len": deployment.context,
        "kv_len": deployment.context,
        "head_dim": attention.head_dim,
        "dtype": deployment.dtype,
        "causal": True,
        "device": "cuda",
    }


def score_peak_bytes(deployment: Deployment) -> int | None:
    """Weigh the most that one layer's attention call holds in prefill, beyond its inputs.

    Args:
        deployment: a model at work.

    Returns:
        Bytes of the widest layer; None for the math backend where K and V differ in width.
    """
    peaks = []
    for attention in _attentions(deployment):
        call = _call(deployment, attention)
        if attention.head_dim != attention.head_dim_v:
            if deployment.implementation == "math":
                return None
            call["head_dim"] = attention.head_dim_v  # of Q, K and V only the output's width is in the peak
        if deployment.fused_elementwise:
            passes = operations(deployment.implementation, **call)
            peaks.append(2 * passes[0].written_bytes)  # the scores are read while probabilities are written
        else:
            peaks.append(peak_extra_bytes(deployment.implementation, **call))
    return max(peaks, default=0)


def traffic_bytes(deployment: Deployment) -> int | None:
    """Count the bytes that attention moves in prefill, all layers.

    Args:
        deployment: a model at work.

    Returns:
        Bytes read and written; None where a layer is not modelled.
    """
    total = 0
    for kind, layers in deployment.model.layer_groups:
        if kind.attention is None:
            continue
        passes = attention_passes(deployment, kind.attention)
        if passes is None:
            return None
        total += layers * sum(step.read_bytes + step.written_bytes for step in passes)
    return total


def kernel_count(deployment: Deployment) -> int | None:
    """Count the passes over memory of one layer's attention: each is a kernel to launch.

    Args:
        deployment: a model at work.

    Returns:
        Passes of the longest layer; None where a layer is not modelled.
    """
    counts = []
    for attention in _attentions(deployment):
        passes = attention_passes(deployment, attention)
        if passes is None:
            return None
        counts.append(len(passes))
    return max(counts, default=0)


def step_bytes(deployment: Deployment) -> int:
    """Count the bytes that one step reads: the weights once, the cache once a sequence.

    Args:
        deployment: a model at work.

    Returns:
        Bytes, rounded where experts make them an expectation.
    """
    model, size = deployment.model, element_bytes(deployment.dtype)
    if not deployment.cached:
        return weight_bytes(model, size)
    traffic = decode_traffic(
        model,
        deployment.batch,
        deployment.context,
        weight_type=size,
        k_type=deployment.k_type,
        v_type=deployment.v_type,
    )
    return round(traffic.total_bytes)


def answer_steps(deployment: Deployment) -> int:
    """Count the steps until every request has its answer, `batch` of them at a time.

    Args:
        deployment: a model at work, with the lengths of its answers.

    Returns:
        Steps: batch after batch, each as long as its longest answer; or, continuous, each place given to the
        next request as soon as it is free.

    Source: Yu et al., Orca, OSDI 2022 (iteration-level scheduling).
    """
    answers, places = deployment.answers, deployment.batch
    if not deployment.continuous:
        return sum(max(answers[first : first + places]) for first in range(0, len(answers), places))
    busy_until = [0] * min(places, len(answers))
    for answer in answers:
        heapq.heapreplace(busy_until, busy_until[0] + answer)
    return max(busy_until)


def memory_bytes(deployment: Deployment) -> int | None:
    """Add up the memory that must be there at once: a lower bound.

    Args:
        deployment: a model at work.

    Returns:
        Bytes of weights, reserved cache and one attention call's peak; other activations are left out. None
        where the peak is not modelled.
    """
    peak = score_peak_bytes(deployment)
    if peak is None:
        return None
    weights = weight_bytes(deployment.model, element_bytes(deployment.dtype))
    return weights + reserved_bytes(deployment) + peak


def sequences_that_fit(deployment: Deployment, memory: int) -> int:
    """Count the sequences whose cache fits beside the weights.

    Args:
        deployment: a model at work, with a cache.
        memory: bytes of the device.

    Returns:
        Sequences, each with what the deployment reserves for one.
    """
    free = whole("memory", memory) - weight_bytes(deployment.model, element_bytes(deployment.dtype))
    return max(0, free // reserve(deployment, 1).reserved_bytes)


def cards_for_weights(deployment: Deployment, memory: int) -> int:
    """Count the devices whose memories together hold the weights, nothing beside them.

    Args:
        deployment: a model at work.
        memory: bytes of each device.

    Returns:
        Devices, the last one filled in part.
    """
    return -(-weight_bytes(deployment.model, element_bytes(deployment.dtype)) // whole("memory", memory))


def _attentions(deployment: Deployment) -> list[Attention]:
    return [kind.attention for kind in deployment.model.kinds if kind.attention is not None]


TERMS: dict[str, Term] = {
    "attention FLOPs": Term(
        "FLOPs",
        lambda d: prefill_budget(d).core_flops,
        "QKᵀ and PV of the pairs the masks keep, one prefill of the batch",
    ),
    "projection FLOPs": Term(
        "FLOPs", lambda d: prefill_budget(d).projection_flops, "Q, K, V and output projections, one prefill"
    ),
    "attention traffic": Term(
        "bytes", traffic_bytes, "read and written by attention in one prefill, all layers"
    ),
    "attention passes": Term("passes", kernel_count, "over memory, one layer's attention in prefill"),
    "attention peak": Term(
        "bytes", score_peak_bytes, "live in one layer's attention call on a CUDA card, beyond its inputs"
    ),
    "weights": Term(
        "bytes", lambda d: weight_bytes(d.model, element_bytes(d.dtype)), "all parameters in the dtype"
    ),
    "cache needed": Term("bytes", needed_bytes, "K and V of the tokens there are, all sequences"),
    "cache reserved": Term("bytes", reserved_bytes, "set aside for K and V, all sequences"),
    "step FLOPs": Term("FLOPs", step_flops, "one new token for every sequence, latent attention absorbed"),
    "step bytes": Term("bytes", step_bytes, "weights and cache read to add one token to every sequence"),
    "answer steps": Term("steps", answer_steps, "until every request has its answer"),
}
"""What a technique can change, by name."""
