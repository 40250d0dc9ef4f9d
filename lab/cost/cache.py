"""The key/value cache of a model, exact, for each kind of layer: full, window, chunks, latent, cross, state.

A layer keeps a row of K and a row of V for each token and KV head (MLA: one latent row a token), stored as
chosen; a window or chunk caps its tokens. A recurrent layer keeps a state of fixed size, counted apart. What
an engine reserves for all this is the question of allocation.py and paging.py.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lab.cost.exact import Count, count, evaluate
from lab.cost.layers import Attention
from lab.cost.shapes import ModelShape
from lab.cost.storage import StorageType, storage_type, whole

FORMS = ("native", "latent", "expanded", "latent and values")
"""Ways to keep MLA: the latent row (native), K and V of every head, or the latent row and a copy for V."""

Storage = str | StorageType


@dataclass(frozen=True, kw_only=True)
class CacheLayers:
    """Layers that keep the same kind of cache, on one rank."""

    kind: str
    layers: int
    k_token_bytes: int = 0  # K of one token in one layer; the latent row of MLA
    v_token_bytes: int = 0  # V of one token in one layer
    span: str = "full"  # "full", "window", "chunks", "cross" or "state"
    limit: int | None = None  # tokens of the window or chunk; of the other sequence for "cross"
    sequence_bytes: int = 0  # recurrent state of one sequence in one layer, whatever its length

    @property
    def token_bytes(self) -> int:
        """K and V of one token in one layer."""
        return self.k_token_bytes + self.v_token_bytes

    def tokens(self, context: Any) -> Count:
        """Count the tokens of one sequence that each of these layers must hold.

        Args:
            context: tokens seen so far, the newest included; an integer or an integer array.

        Returns:
            Tokens: the context, at most the window or chunk; the other sequence's length for cross-attention.
        """
        seen = count("context", context)
        if self.limit is None:
            return seen
        limit = self.limit
        if self.span == "cross":
            return evaluate(lambda c: c * 0 + limit, seen)
        return np.minimum(seen, limit) if isinstance(seen, np.ndarray) else min(seen, limit)

    def bytes(self, batch: Any, context: Any) -> Count:
        """Weigh what these layers hold for a batch.

        Args:
            batch: sequences.
            context: tokens of each sequence.

        Returns:
            Bytes of all these layers, states included.
        """
        per_token, per_sequence = self.layers * self.token_bytes, self.layers * self.sequence_bytes
        return evaluate(
            lambda b, t: b * (t * per_token + per_sequence), count("batch", batch), self.tokens(context)
        )


@dataclass(frozen=True)
class CachePart:
    """What one kind of layer holds for a batch: `tokens` are those of one sequence."""

    layers: CacheLayers
    tokens: Count
    bytes: Count


@dataclass(frozen=True)
class CacheBytes:
    """A model's cache, by kind of layer and in total."""

    parts: tuple[CachePart, ...]

    @property
    def total_bytes(self) -> Count:
        """K, V and recurrent states of the whole batch."""
        return _sum(part.bytes for part in self.parts)

    @property
    def kv_bytes(self) -> Count:
        """K and V of the whole batch, without recurrent states."""
        return _sum(part.bytes for part in self.parts if part.layers.span != "state")

    @property
    def state_bytes(self) -> Count:
        """Recurrent states of the whole batch."""
        return _sum(part.bytes for part in self.parts if part.layers.span == "state")

    @property
    def bytes_per_new_token(self) -> int:
        """Bytes one more token of one sequence adds where no window is full yet."""
        return sum(
            part.layers.layers * part.layers.token_bytes for part in self.parts if part.layers.span != "cross"
        )


def _sum(values: Iterable[Count]) -> Count:
    found = list(values)
    return evaluate(lambda *terms: sum(terms), *found) if found else 0


def rank_heads(kv_heads: int, tp: int) -> int:
    """Count the KV heads that one tensor-parallel rank keeps.

    Args:
        kv_heads: KV heads of the model.
        tp: tensor-parallel ranks.

    Returns:
        Heads a rank; with more ranks than heads each head is kept by several ranks.

    Raises:
        ValueError: neither number divides the other.

    Source: vLLM, ModelConfig.get_num_kv_heads: max(1, total_num_kv_heads // tensor_parallel_size).
    """
    heads, ranks = whole("kv_heads", kv_heads), whole("tp", tp)
    if heads % ranks and ranks % heads:
        raise ValueError(
            f"tp must divide kv_heads or be a multiple of it, got tp={tp} for kv_heads={kv_heads}"
        )
    return max(1, heads // ranks)


def token_rows(
    attention: Attention,
    k_type: Storage = "fp16",
    v_type: Storage | None = None,
    *,
    form: str = "native",
    rope_type: Storage | None = None,
    tp: int = 1,
) -> tuple[int, int]:
    """Weigh what one token adds to the cache of one layer, K and V apart.

    Args:
        attention: the layer's attention.
        k_type: storage of K, and of an MLA latent row.
        v_type: storage of V; None for that of K.
        form: one of FORMS; it matters for MLA only.
        rope_type: storage of the rotary part of a latent row where it is a row of its own (DeepSeek-V3.2).
        tp: tensor-parallel ranks; a latent row is kept whole by every rank.

    Returns:
        Bytes of K (or of the latent row) and of V on one rank; (0, 0) where another layer's cache is read.

    Raises:
        ValueError: an unknown form or type, a row that is not whole blocks, a tp that does not fit kv_heads.
    """
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, got {form!r}")
    keys = storage_type(k_type)
    values = keys if v_type is None else storage_type(v_type)
    if attention.shares_cache:
        return (0, 0)
    latent = attention.latent
    if latent is None or form == "expanded":
        heads = rank_heads(attention.kv_heads, tp)
        return (heads * keys.row(attention.head_dim), heads * values.row(attention.head_dim_v))
    if rope_type is None or not latent.rope_dim:
        row = keys.row(latent.kv_rank + latent.rope_dim)
    else:
        row = keys.row(latent.kv_rank) + storage_type(rope_type).row(latent.rope_dim)
    return (row, values.row(latent.kv_rank) if form == "latent and values" else 0)


def layers_of(
    attention: Attention,
    layers: int,
    k_type: Storage = "fp16",
    v_type: Storage | None = None,
    *,
    source_tokens: int | None = None,
    **options: Any,
) -> CacheLayers:
    """Say what some equal attention layers keep.

    Args:
        attention: the attention of each of them.
        layers: how many there are.
        k_type: storage of K.
        v_type: storage of V; None for that of K.
        source_tokens: length of the other sequence; needed for cross-attention only.
        options: form, rope_type and tp of `token_rows`.

    Returns:
        The layers, with bytes a token and the tokens they are limited to.

    Raises:
        ValueError: as `token_rows`; cross-attention without source_tokens.
    """
    keys, values = token_rows(attention, k_type, v_type, **options)
    span, limit = "full", None
    if attention.source_hidden is not None:
        if source_tokens is None:
            raise ValueError("source_tokens must be given for cross-attention, got None")
        span, limit = "cross", whole("source_tokens", source_tokens)
    elif attention.window is not None:
        span, limit = "window", attention.window
    elif attention.chunk is not None:
        span, limit = "chunks", attention.chunk
    return CacheLayers(
        kind=f"{attention.kind} {attention.span}",
        layers=whole("layers", layers),
        k_token_bytes=keys,
        v_token_bytes=values,
        span=span,
        limit=limit,
    )


def cache_layers(
    model: ModelShape,
    k_type: Storage = "fp16",
    v_type: Storage | None = None,
    *,
    source_tokens: int | None = None,
    **options: Any,
) -> tuple[CacheLayers, ...]:
    """Say what each kind of layer of a model keeps; kinds that keep the same are one entry.

    Args:
        model: any shape.
        k_type: storage of K, and of an MLA latent row.
        v_type: storage of V; None for that of K.
        source_tokens: length of the other sequence; needed for cross-attention only.
        options: form, rope_type and tp of `token_rows`.

    Returns:
        The kinds of layer that keep a cache of their own, in the order of the model's kinds.

    Raises:
        ValueError: as `layers_of`.
    """
    blocks = [
        (attention, layers)
        for kind, layers in model.layer_groups
        for attention in (kind.attention, kind.cross_attention)
        if attention is not None and not attention.shares_cache
    ]
    equal: dict[CacheLayers, int] = {}
    for attention, layers in blocks:
        one = layers_of(attention, 1, k_type, v_type, source_tokens=source_tokens, **options)
        equal[one] = equal.get(one, 0) + layers
    return tuple(replace(one, layers=layers) for one, layers in equal.items())


def cache_bytes(
    model: ModelShape,
    batch: Any,
    context: Any,
    k_type: Storage = "fp16",
    v_type: Storage | None = None,
    **options: Any,
) -> CacheBytes:
    """Weigh the cache of a model, exactly.

    Args:
        model: any shape.
        batch: sequences; an integer or an integer array.
        context: tokens of each; an integer or an integer array that broadcasts with batch.
        k_type: storage of K, and of an MLA latent row.
        v_type: storage of V; None for that of K.
        options: form, rope_type, tp and source_tokens of `cache_layers`.

    Returns:
        Bytes for each kind of layer and in total; arrays where an argument is one.

    Raises:
        ValueError: as `cache_layers`; a size below 1.
    """
    parts = (
        CachePart(kind, kind.tokens(context), kind.bytes(batch, context))
        for kind in cache_layers(model, k_type, v_type, **options)
    )
    return CacheBytes(tuple(parts))
