"""The key/value cache of a model, exact, for each kind of layer: full, window, chunks, latent, cross, state.

A layer keeps a row of K and a row of V for each token and KV head (MLA: one latent row a token), stored as
chosen; a window or chunk caps its tokens. A recurrent layer keeps a state of fixed size, counted apart. What
an engine reserves for all this is the question of allocation.py and paging.py.
"""

from dataclasses import dataclass, replace
from typing import Any

from lab.cost.cache_rows import FORMS, Storage, rank_heads, token_rows
from lab.cost.exact import Count, count, evaluate, smaller, total
from lab.cost.formulas import BYTES_PER_ELEMENT
from lab.cost.layers import Attention, Recurrent
from lab.cost.shapes import ModelShape
from lab.cost.storage import storage_type, whole

__all__ = [
    "FORMS",
    "CacheBytes",
    "CacheLayers",
    "CachePart",
    "Storage",
    "cache_bytes",
    "cache_layers",
    "default_conv_type",
    "layers_of",
    "rank_heads",
    "states_of",
    "token_rows",
]


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
        return smaller(seen, limit)

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
        return total(part.bytes for part in self.parts)

    @property
    def kv_bytes(self) -> Count:
        """K and V of the whole batch, without recurrent states."""
        return total(part.bytes for part in self.parts if part.layers.span != "state")

    @property
    def state_bytes(self) -> Count:
        """Recurrent states of the whole batch."""
        return total(part.bytes for part in self.parts if part.layers.span == "state")

    @property
    def bytes_per_new_token(self) -> int:
        """Bytes one more token of one sequence adds where no window is full yet."""
        return sum(
            part.layers.layers * part.layers.token_bytes for part in self.parts if part.layers.span != "cross"
        )


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
    span, limit = _span(attention, source_tokens)
    return CacheLayers(
        kind=f"{attention.kind} {attention.span}",
        layers=whole("layers", layers),
        k_token_bytes=keys,
        v_token_bytes=values,
        span=span,
        limit=limit,
    )


def _span(attention: Attention, source_tokens: int | None) -> tuple[str, int | None]:
    """Name what limits the tokens of a layer, and to how many."""
    if attention.source_hidden is not None:
        if source_tokens is None:
            raise ValueError("source_tokens must be given for cross-attention, got None")
        return "cross", whole("source_tokens", source_tokens)
    if attention.window is not None:
        return "window", attention.window
    if attention.chunk is not None:
        return "chunks", attention.chunk
    return "full", None


def states_of(
    mixer: Recurrent, layers: int, state_type: Storage = "fp32", conv_type: Storage = "fp16", *, tp: int = 1
) -> CacheLayers:
    """Say what some equal recurrent layers keep.

    Args:
        mixer: the recurrent mixer of each of them.
        layers: how many there are.
        state_type: storage of the state.
        conv_type: storage of the inputs that the convolution still needs.
        tp: tensor-parallel ranks that share out the channels.

    Returns:
        The layers, with bytes a sequence.

    Raises:
        ValueError: an unknown type, or channels that do not divide among the ranks.

    Source: vLLM, MambaSpec in kv_cache_interface.py (the sum of both shapes, each in its own dtype).
    """
    ranks = whole("tp", tp)
    if mixer.conv_channels % ranks or mixer.state_elements % ranks:
        raise ValueError(f"tp must divide the channels of {mixer.name}, got tp={tp}")
    parts = ((mixer.state_elements, state_type), (mixer.conv_elements, conv_type))
    stored = sum(storage_type(kind).row(elements // ranks) for elements, kind in parts if elements)
    return CacheLayers(
        kind=f"{mixer.name} state", layers=whole("layers", layers), span="state", sequence_bytes=stored
    )


def default_conv_type(k_type: Storage) -> Storage:
    """Say how the inputs of a convolution are stored: as activations, which a quantised cache leaves alone.

    Args:
        k_type: storage of K.

    Returns:
        The type of K where that is a dtype of activations, else fp16.

    Source: vLLM, mamba_cache_dtype "auto" is the model's dtype, whatever kv_cache_dtype is; llama.cpp keeps
        recurrent states apart from --cache-type-k.
    """
    return k_type if storage_type(k_type).name in BYTES_PER_ELEMENT else "fp16"


def cache_layers(
    model: ModelShape,
    k_type: Storage = "fp16",
    v_type: Storage | None = None,
    *,
    source_tokens: int | None = None,
    state_type: Storage = "fp32",
    conv_type: Storage | None = None,
    **options: Any,
) -> tuple[CacheLayers, ...]:
    """Say what each kind of layer of a model keeps; kinds that keep the same are one entry.

    Args:
        model: any shape.
        k_type: storage of K, and of an MLA latent row.
        v_type: storage of V; None for that of K.
        source_tokens: length of the other sequence; needed for cross-attention only.
        state_type: storage of recurrent states.
        conv_type: storage of the inputs a convolution keeps; None for `default_conv_type`.
        options: form, rope_type and tp of `token_rows`.

    Returns:
        The kinds of layer that keep a cache of their own, in the order of the model's kinds.

    Raises:
        ValueError: as `layers_of`.
    """
    equal: dict[CacheLayers, int] = {}
    for kind, layers in model.layer_groups:
        found = [
            layers_of(attention, 1, k_type, v_type, source_tokens=source_tokens, **options)
            for attention in kind.attentions
            if not attention.shares_cache
        ]
        if kind.recurrent is not None:
            inputs = default_conv_type(k_type) if conv_type is None else conv_type
            found.append(states_of(kind.recurrent, 1, state_type, inputs, tp=options.get("tp", 1)))
        for one in found:
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
        options: form, rope_type, tp, source_tokens, state_type and conv_type of `cache_layers`.

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
