"""Context parallelism on paper: the tokens of a sequence on several ranks, K and V passed around.

In a ring each rank passes on one block of K and V at a time and holds two; with an all-gather it holds those
of a whole layer. Both send the same bytes. In a decode step each rank attends to its own part of the cache,
and the partial outputs are merged by their log-sum-exp.

Source: Liu et al., Ring Attention, arXiv:2310.01889; all-gather and the balanced order: Llama 3,
    arXiv:2407.21783,
section 3.3.2.
"""

from __future__ import annotations

from lab.cost.cache import Storage, cache_layers
from lab.cost.exact import Number
from lab.cost.flops import core_flops
from lab.cost.formulas import element_bytes
from lab.cost.layers import Attention
from lab.cost.ranks import Message, Plan, Rank, all_gather_bytes
from lab.cost.shapes import LayerKind, ModelShape, Workload
from lab.cost.spans import scored_pairs
from lab.cost.storage import whole
from lab.cost.weights import stored_weights

Ranges = tuple[tuple[int, int], ...]
"""Ranges of positions, (first, end)."""

EXCHANGES = ("ring", "all-gather")
ORDERS = ("balanced", "contiguous")
"""Balanced: rank r of n takes chunks r and 2n - 1 - r of 2n, one early, one late: causal work is even."""


def token_ranges(context: int, ranks: int, order: str = "balanced") -> tuple[Ranges, ...]:
    """Share out the tokens of a sequence.

    Args:
        context: tokens; a multiple of 2 · ranks when balanced, of ranks when contiguous.
        ranks: devices.
        order: "balanced" or "contiguous".

    Returns:
        For each rank its ranges of positions, (first, end).

    Raises:
        ValueError: an unknown order, a context that does not divide.
    """
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}, got {order!r}")
    group, tokens = whole("ranks", ranks), whole("context", context)
    pieces = group if order == "contiguous" else 2 * group
    if tokens % pieces:
        raise ValueError(f"context must be a multiple of {pieces} for {ranks} ranks ({order}), got {context}")
    size = tokens // pieces
    if order == "contiguous":
        return tuple(((rank * size, (rank + 1) * size),) for rank in range(group))
    chunks = ((rank, pieces - 1 - rank) for rank in range(group))
    return tuple(tuple((chunk * size, (chunk + 1) * size) for chunk in pair) for pair in chunks)


def context_parallel(
    model: ModelShape,
    work: Workload,
    ranks: int,
    *,
    exchange: str = "ring",
    order: str = "balanced",
    weight_type: str | Number = "fp16",
    k_type: Storage = "fp16",
    v_type: Storage | None = None,
) -> Plan:
    """Spread the tokens of each sequence over ranks that all hold the whole model.

    Args:
        model: the shape, with attention over its own tokens only.
        work: a prefill (q_len = context) or a decode step (q_len = 1); its dtype is that of the messages.
        ranks: devices.
        exchange: "ring" or "all-gather", how K and V travel in a prefill.
        order: which tokens a rank takes: "balanced" or "contiguous".
        weight_type: a dtype name, or bytes of one parameter.
        k_type: storage of K.
        v_type: storage of V; None for that of K.

    Returns:
        The plan. Each rank keeps all tokens it was given, also those that windows no longer see.

    Raises:
        ValueError: an unknown option, a context that does not divide, a pass or layers that are not modelled.
    """
    if exchange not in EXCHANGES:
        raise ValueError(f"exchange must be one of {', '.join(EXCHANGES)}, got {exchange!r}")
    if work.q_len not in (1, work.context):
        raise ValueError(f"q_len must be 1 or the context, got {work.q_len} of {work.context}")
    shares = token_ranges(work.context, ranks, order)
    group = len(shares)
    token_bytes = sum(part.layers * part.token_bytes for part in cache_layers(model, k_type, v_type))
    messages, buffer = _messages(model, work, group, exchange)
    return Plan(
        scheme=f"context parallel over {group} ({exchange}, {order})",
        ranks=tuple(
            Rank(
                parameters=model.parameters,
                weight_bytes=stored_weights(model.parameters, weight_type),
                kv_bytes=work.batch * (work.context // group) * token_bytes,
                core_flops=_core(model, work, ranges),
                messages=messages,
                buffer_bytes=buffer,
            )
            for ranges in shares
        ),
        replicated={"the whole model": (group - 1) * model.parameters},
        replicated_kv_bytes=0,
        notes=("every rank holds the whole model", "tokens that windows no longer see are kept"),
    )


def _core(model: ModelShape, work: Workload, ranges: Ranges) -> int:
    """Attention-core FLOPs of one rank: its queries in a prefill, its keys in a decode step."""
    total = 0
    for kind, layers in model.layer_groups:
        attention = _own(kind)
        count = _query_pairs if work.q_len == work.context else _key_pairs
        scores = work.batch * attention.heads * count(attention, work, ranges)
        total += layers * sum(core_flops(attention, scores).values())
    return total


def _query_pairs(attention: Attention, work: Workload, ranges: Ranges) -> int:
    pairs = 0
    for first, end in ranges:
        seen = end if work.causal else work.context
        pairs += int(scored_pairs(attention, end - first, seen, causal=work.causal))
    return pairs


def _key_pairs(attention: Attention, work: Workload, ranges: Ranges) -> int:
    visible = 0
    if work.causal and attention.window is not None:
        visible = work.context - attention.window
    elif work.causal and attention.chunk is not None:
        visible = (work.context - 1) // attention.chunk * attention.chunk
    return sum(max(0, end - max(first, visible)) for first, end in ranges)


def _messages(
    model: ModelShape, work: Workload, group: int, exchange: str
) -> tuple[tuple[Message, ...], int]:
    """What each rank sends, and the bytes of other ranks' K and V that it holds meanwhile."""
    size = element_bytes(work.dtype)
    messages, buffer = [], 0
    for kind, layers in model.layer_groups:
        attention = _own(kind)
        if work.q_len != work.context:
            width = attention.head_dim_v if attention.latent is None else attention.latent.kv_rank
            part = work.batch * attention.heads * (width * size + 4)  # 4: the log-sum-exp
            messages.append(Message("partial outputs", (group - 1) * part, layers))
            continue
        row = sum(attention.cached_elements_per_token()) * size
        everything = work.batch * work.context * row
        if exchange == "ring":
            block = everything // group
            messages.append(Message("block of K and V", block, (group - 1) * layers))
            buffer = max(buffer, 2 * block if group > 1 else 0)  # one in use, one arriving
        else:
            sent = all_gather_bytes(everything, group)
            messages.append(Message("all-gather of K and V", sent, layers))
            buffer = max(buffer, everything)
    return tuple(messages), buffer


def _own(kind: LayerKind) -> Attention:
    """The layer's attention over its own tokens."""
    if kind.attention is None or kind.cross_attention is not None:
        raise ValueError(
            "context parallelism is modelled for layers with attention over their own tokens only"
        )
    return kind.attention
