"""Tensor parallelism on paper: every matrix split over the ranks, two all-reduces a layer.

The first product of a block is split by columns (heads, or the inner width), the second by rows, the token
table and the LM head by vocabulary. Norms, routers, compressions of MLA, biases after a row-split product and
positions are held by every rank; so are K and V heads when there are fewer of them than ranks.

Source: Shoeybi et al., Megatron-LM, arXiv:1909.08053, section 3; KV heads as in vLLM (lab.cost.cache_rows).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from lab.cost.budget import budget
from lab.cost.cache import Storage, cache_bytes
from lab.cost.cache_rows import rank_heads
from lab.cost.exact import Number
from lab.cost.formulas import element_bytes
from lab.cost.layers import Attention, FeedForward, Matrix
from lab.cost.ranks import Message, Plan, Rank, all_gather_bytes, all_reduce_bytes
from lab.cost.shapes import LayerKind, ModelShape, Workload
from lab.cost.storage import whole
from lab.cost.weights import stored_weights

_COLUMNS = {"q", "q_b", "kv_b", "gate", "up"}
_ROWS = {"out", "down"}


class Held(NamedTuple):
    """Parameters of one kind: those of one copy, and those that one rank holds."""

    name: str
    whole: int
    held: int


def tensor_parallel(
    model: ModelShape,
    work: Workload,
    ranks: int,
    *,
    weight_type: str | Number = "fp16",
    k_type: Storage = "fp16",
    v_type: Storage | None = None,
    logits: str = "last",
    source_tokens: int | None = None,
) -> Plan:
    """Spread a model over ranks by splitting every layer.

    Args:
        model: the shape, without recurrent layers.
        work: the pass whose communication is counted; its dtype is that of the messages.
        ranks: devices; must divide heads and inner widths, and divide the KV heads or be a multiple of them.
        weight_type: a dtype name, or bytes of one parameter.
        k_type: storage of K.
        v_type: storage of V; None for that of K.
        logits: positions whose logits are gathered: "all", "last" or "none".
        source_tokens: length of the other sequence, for cross-attention.

    Returns:
        The plan. Ranks differ only where the vocabulary does not divide: the last rows are fewer.

    Raises:
        ValueError: a number of ranks that does not fit; recurrent layers.
    """
    group = whole("ranks", ranks)
    parts = [
        part._replace(whole=layers * part.whole, held=layers * part.held)
        for kind, layers in model.layer_groups
        for part in _layer(kind, group)
    ]
    ends = model.position_parameters + model.final_norm_parameters
    parts.append(Held("positions, final norm", ends, ends))
    in_layers = sum(part.held for part in parts)
    counted = budget(model, work, logits=logits, source_tokens=source_tokens)
    cached = int(
        cache_bytes(
            model, work.batch, work.context, k_type, v_type, tp=group, source_tokens=source_tokens
        ).total_bytes
    )
    one_copy = cache_bytes(model, work.batch, work.context, k_type, v_type, source_tokens=source_tokens)
    messages = _messages(model, work, group, counted.logits_positions)
    held = [in_layers + rows for rows in _vocabulary(model, group)]
    return Plan(
        scheme=f"tensor parallel over {group}",
        ranks=tuple(
            Rank(
                parameters=parameters,
                weight_bytes=stored_weights(parameters, weight_type),
                kv_bytes=cached,
                core_flops=counted.core_flops // group,
                messages=messages,
            )
            for parameters in held
        ),
        replicated=_replicated(parts, group),
        replicated_kv_bytes=group * cached - int(one_copy.total_bytes),
        notes=_notes(model, group),
    )


def _layer(kind: LayerKind, group: int) -> Iterator[Held]:
    """Yield what a rank holds of one layer."""
    if kind.recurrent is not None:
        raise ValueError(f"tensor parallelism of recurrent layers is not modelled, got {kind.recurrent.name}")
    norms = kind.norm_parameters + kind.other_parameters
    yield Held("norms", norms, norms)
    for attention in kind.attentions:
        yield from _attention(attention, group)
    if kind.feed_forward is not None:
        yield from _feed_forward(kind.feed_forward, group)


def _attention(attention: Attention, group: int) -> Iterator[Held]:
    if attention.heads % group:
        raise ValueError(f"ranks must divide heads={attention.heads}, got ranks={group}")
    yield Held("norms", attention.norm_parameters, attention.norm_parameters)
    if attention.sinks:
        yield Held("sinks", attention.heads, attention.heads // group)
    for matrix in attention.matrices:
        if matrix.name in ("k", "v"):
            share = matrix.parameters // attention.kv_heads * rank_heads(attention.kv_heads, group)
            yield Held("k, v", matrix.parameters, share)
        else:
            yield _matrix(matrix, matrix.name, group)


def _feed_forward(block: FeedForward, group: int) -> Iterator[Held]:
    for matrix in block.matrices:
        scalar = matrix.outputs == 1  # the weight of a shared expert
        yield _matrix(matrix, "router" if scalar else matrix.name.removeprefix("shared_"), group)


def _matrix(matrix: Matrix, name: str, group: int) -> Held:
    """Split a matrix by columns or rows; a bias after a row split is added once, and held by all."""
    if name in _COLUMNS:
        _check_divides(matrix.name, matrix.outputs, group)
        return Held(name, matrix.parameters, matrix.parameters // group)
    if name in _ROWS:
        _check_divides(matrix.name, matrix.inputs, group)
        bias = matrix.outputs if matrix.bias else 0
        return Held(name, matrix.parameters, matrix.copies * (matrix.weights // group + bias))
    return Held(name, matrix.parameters, matrix.parameters)


def _check_divides(name: str, width: int, group: int) -> None:
    if width % group:
        raise ValueError(f"ranks must divide the width of {name}, {width}, got ranks={group}")


def _vocabulary(model: ModelShape, group: int) -> list[int]:
    """Each rank's share of the token table and of the LM head: equal chunks of rows, the last shorter."""
    tables = [(model.vocab + model.extra_rows, model.hidden)]
    if not model.tied_embeddings:
        tables.append((model.vocab, model.hidden))
    if model.lm_head_bias:
        tables.append((model.vocab, 1))
    held = []
    for rank in range(group):
        chunks = ((rows, -(-rows // group), width) for rows, width in tables)
        held.append(sum(max(0, min(chunk, rows - rank * chunk)) * width for rows, chunk, width in chunks))
    return held


def _replicated(parts: list[Held], group: int) -> dict[str, int]:
    extra: Counter[str] = Counter()
    for part in parts:
        extra[part.name] += group * part.held - part.whole
    return {name: parameters for name, parameters in extra.items() if parameters}


def _messages(model: ModelShape, work: Workload, group: int, positions: int) -> tuple[Message, ...]:
    """An all-reduce after each block and after the token table, and the logits gathered."""
    size = element_bytes(work.dtype)
    states = work.batch * work.q_len * model.hidden * size
    blocks = sum(
        layers * (len(kind.attentions) + (kind.feed_forward is not None))
        for kind, layers in model.layer_groups
    )
    gathered = work.batch * positions * model.vocab * size
    return (
        Message("all-reduce of the embedding", all_reduce_bytes(states, group), 1),
        Message("all-reduce after a block", all_reduce_bytes(states, group), blocks),
        Message("all-gather of the logits", all_gather_bytes(gathered, group), 1),
    )


def _notes(model: ModelShape, group: int) -> tuple[str, ...]:
    notes = []
    fewest = min(attention.kv_heads for kind in model.kinds for attention in kind.attentions)
    latent = any(attention.latent is not None for kind in model.kinds for attention in kind.attentions)
    if latent:
        notes.append(f"MLA's latent rows are kept whole by each of the {group} ranks")
    elif group > fewest:
        notes.append(f"{fewest} KV heads on {group} ranks: each head is held {group // fewest} times")
    return tuple(notes)
