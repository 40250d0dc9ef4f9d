"""What a family of models is: the part of its layers that its code fixes, and how to read the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from lab.cost.fields import Fields
from lab.cost.layers import Attention, FeedForward, Recurrent


class Sizes(NamedTuple):
    """The sizes that every family states."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int


class Span(NamedTuple):
    """Which tokens a layer sees: all, a window or chunk of `size`, another sequence, or a state."""

    kind: Literal["full", "window", "chunk", "cross", "recurrent"]
    size: int = 0


FULL = Span("full")
RECURRENT = Span("recurrent")

Spans = Callable[[Fields, Sizes], Sequence[Span]]
FeedForwards = Callable[[Fields, Sizes, "Family"], Sequence[FeedForward | None]]
AttentionOf = Callable[[Fields, Sizes, "Family"], Attention]
Option = bool | str
"""Fixed by the family's code, or the name of the config's flag that decides."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """How one family builds its layers. Norms are counted in vectors of the hidden width."""

    source: str  # the classes in transformers 5.24 this was read from
    names: Mapping[str, str] = field(
        default_factory=dict
    )  # usual name of a field: the family's; both are read
    renamed: Mapping[str, str] = field(default_factory=dict)  # the same, where the usual name is not read
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of the config class, for fields it may omit
    grouped: bool = True  # it has num_key_value_heads
    head_dim: Literal["stated", "required", "derived", "latent"] = "stated"  # derived: hidden / heads
    layer_norms: int | Callable[[Fields], int] = 2
    final_norms: int | Callable[[Fields], int] = 1
    norm_bias: Option = False  # a LayerNorm has biases, an RMSNorm has none
    qkv_bias: Option = False
    out_bias: Option = False
    gated: bool = True
    ffn_bias: Option = False
    ffn_multiple: int | None = None  # of hidden, where the config does not state the width
    router_bias: bool = False
    head_bias: bool = False  # a bias on the LM head
    qk_norm: Option = False  # a norm of head_dim weights on Q and one on K
    sinks: bool = False
    output_gate: bool = False
    learned_positions: bool = False
    extra_positions: int = 0  # rows of the position table beyond max_position_embeddings
    extra_rows: int = 0  # rows of the token table beyond vocab_size
    attention: AttentionOf | None = None
    cross_attention: AttentionOf | None = None  # beside the self-attention, or in place of it ("cross" spans)
    spans: Spans | None = None  # None: every layer is full
    feed_forwards: FeedForwards | None = None  # None: every layer is dense
    recurrent: Callable[[Fields, Sizes], Recurrent] | None = None
    cross_layer_parameters: int = 0  # gates of a layer with cross-attention
    text_of: str | None = None  # the multimodal config that holds this one as its text_config
