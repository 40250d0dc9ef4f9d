"""A whole model as a shape: kinds of layers with their order, embeddings, head; and the work asked of it.

Equal layers share one `LayerKind`, so that a budget sums over the few kinds there are, not over all layers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from lab.cost.exact import Number, byte_ratio, flag
from lab.cost.formulas import element_bytes
from lab.cost.layers import Attention, FeedForward, Recurrent, require_count


@dataclass(frozen=True, kw_only=True)
class LayerKind:
    """One kind of layer: what mixes its tokens, its feed-forward block and the norms around them.

    Most layers have attention and a feed-forward block. A hybrid has layers with a `recurrent` mixer instead
    of attention; a layer may also only attend to another sequence, or lack one of the two parts.
    """

    attention: Attention | None
    feed_forward: FeedForward | None
    norm_parameters: int  # norms outside the two blocks, weights and biases
    cross_attention: Attention | None = None
    recurrent: Recurrent | None = None
    other_parameters: int = 0  # such as the gates of a cross-attention layer

    def __post_init__(self) -> None:
        for name in ("norm_parameters", "other_parameters"):
            require_count("LayerKind", name, getattr(self, name), minimum=0)
        if self.attention is not None and self.recurrent is not None:
            raise ValueError("LayerKind: a layer has attention or a recurrent mixer, not both.")
        if not self._parts:
            raise ValueError("LayerKind: a layer must have at least one part.")
        if len({part.hidden for part in self._parts}) > 1:
            raise ValueError("LayerKind: all parts of a layer must have the same hidden width.")

    @property
    def _parts(self) -> tuple[Attention | Recurrent | FeedForward, ...]:
        parts = (self.attention, self.recurrent, self.cross_attention, self.feed_forward)
        return tuple(part for part in parts if part is not None)

    @property
    def attentions(self) -> tuple[Attention, ...]:
        """Its attention and its cross-attention, as far as it has them."""
        return tuple(one for one in (self.attention, self.cross_attention) if one is not None)

    @property
    def parameters(self) -> int:
        """Weights, biases and norms of one such layer."""
        return sum(part.parameters for part in self._parts) + self.norm_parameters + self.other_parameters

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses: of the experts, only the active ones."""
        block = self.feed_forward
        return self.parameters - (block.parameters - block.active_parameters if block else 0)


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """A decoder-only language model (or the text part of one), as far as its cost depends on it.

    `order` names the kind of each layer, from the first to the last.
    """

    id: str
    name: str
    family: str
    hidden: int
    vocab: int
    kinds: tuple[LayerKind, ...]
    order: tuple[int, ...]
    tied_embeddings: bool
    final_norm_parameters: int
    position_parameters: int = 0  # learned positions: rows x hidden
    extra_rows: int = 0  # rows of the token table beyond the vocabulary
    lm_head_bias: bool = False
    max_context: int | None = None
    sources: tuple[str, ...] = ()
    agreement: int | None = None  # independent sources that agree on every architecture field
    notes: str = ""
    assumed: tuple[str, ...] = ()  # "field = value" taken from the family's defaults, not from the config
    published_parameters: float | None = None

    def __post_init__(self) -> None:
        for name in ("hidden", "vocab"):
            require_count("ModelShape", name, getattr(self, name))
        for name in ("final_norm_parameters", "position_parameters", "extra_rows"):
            require_count("ModelShape", name, getattr(self, name), minimum=0)
        if self.max_context is not None:
            require_count("ModelShape", "max_context", self.max_context)
        if not self.kinds or set(self.order) != set(range(len(self.kinds))):
            raise ValueError("ModelShape: order must name each of its kinds of layer, and no other.")
        if not any(kind.attention for kind in self.kinds):
            raise ValueError("ModelShape: at least one layer must have attention over its own tokens.")
        if any(part.hidden != self.hidden for kind in self.kinds for part in kind._parts):
            raise ValueError(f"ModelShape: every layer must have the model's hidden width {self.hidden}.")
        if self.extra_rows and self.tied_embeddings:
            raise ValueError("ModelShape: a tied table serves as LM head and can have no extra_rows.")

    @cached_property
    def layer_groups(self) -> tuple[tuple[LayerKind, int], ...]:
        """Each kind of layer and how many layers are of it."""
        counts = Counter(self.order)
        return tuple((kind, counts[number]) for number, kind in enumerate(self.kinds))

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self.order)

    @cached_property
    def _widest(self) -> Attention:
        """The attention that sees most: full where there is such a layer. Its heads stand for the model's."""
        found = [kind.attention for kind in self.kinds if kind.attention is not None]
        return next((attention for attention in found if attention.span == "full"), found[0])

    @property
    def attention_kind(self) -> str:
        """MHA, GQA, MQA or MLA."""
        return self._widest.kind

    @property
    def heads(self) -> int:
        """Query heads."""
        return self._widest.heads

    @property
    def kv_heads(self) -> int:
        """Key/value heads."""
        return self._widest.kv_heads

    @property
    def head_dim(self) -> int:
        """Width of a query and key head."""
        return self._widest.head_dim

    @property
    def head_dim_v(self) -> int:
        """Width of a value head."""
        return self._widest.head_dim_v

    @property
    def windows(self) -> tuple[int | None, ...]:
        """The window of each kind of layer: None where it sees everything, a chunk, or has no attention."""
        return tuple(kind.attention.window if kind.attention else None for kind in self.kinds)

    @property
    def embedding_parameters(self) -> int:
        """Rows of the token table times hidden; a tied LM head is this same table."""
        return (self.vocab + self.extra_rows) * self.hidden

    @property
    def lm_head_parameters(self) -> int:
        """Weights and biases of the LM head; a table that is tied is not counted again."""
        table = 0 if self.tied_embeddings else self.vocab * self.hidden
        return table + (self.vocab if self.lm_head_bias else 0)

    @cached_property
    def layer_parameters(self) -> int:
        """Parameters of all layers."""
        return sum(kind.parameters * count for kind, count in self.layer_groups)

    @property
    def parameters(self) -> int:
        """All parameters, a tied table counted once."""
        ends = self.embedding_parameters + self.position_parameters + self.final_norm_parameters
        return ends + self.layer_parameters + self.lm_head_parameters

    @cached_property
    def active_parameters(self) -> int:
        """Parameters that one token uses: of the experts, only the active ones."""
        idle = sum(count * (kind.parameters - kind.active_parameters) for kind, count in self.layer_groups)
        return self.parameters - idle

    @cached_property
    def state_elements(self) -> int:
        """Elements of recurrent state that one sequence keeps in all layers, whatever its length."""
        found = ((kind.recurrent, count) for kind, count in self.layer_groups)
        return sum(count * recurrent.state_elements for recurrent, count in found if recurrent)

    @cached_property
    def conv_elements(self) -> int:
        """Elements that the short convolutions of recurrent layers keep of one sequence."""
        found = ((kind.recurrent, count) for kind, count in self.layer_groups)
        return sum(count * recurrent.conv_elements for recurrent, count in found if recurrent)

    def cached_elements(
        self, context: int, *, form: str = "native", source_tokens: int = 0
    ) -> tuple[int, int]:
        """Count the elements of K and of V that one sequence keeps.

        Args:
            context: tokens seen, the newest included.
            form: "native" (MLA: the latent vector), "latent" or "expanded".
            source_tokens: length of the other sequence, for cross-attention.

        Returns:
            (K elements, V elements) over all layers, windows and chunks respected.

        Raises:
            ValueError: context below 1, an unknown form.
        """
        require_count("cached_elements", "context", context)
        keys = values = 0
        for kind, count in self.layer_groups:
            for attention in kind.attentions:
                cells = count * attention.cells(context, source_tokens)
                k, v = attention.cached_elements_per_token(form)
                keys, values = keys + cells * k, values + cells * v
        return keys, values


def weight_bytes(model: ModelShape, bytes_per_element: Number) -> int:
    """Weigh all parameters of a model.

    Args:
        model: any shape.
        bytes_per_element: bytes of one parameter: 2, 0.5, Fraction(18, 32).

    Returns:
        Bytes, a last part of a byte counted as a whole one.

    Raises:
        ValueError: bytes_per_element is not positive, or no simple fraction.
    """
    numerator, denominator = byte_ratio("bytes_per_element", bytes_per_element)
    if not isinstance(numerator, int):
        raise ValueError(f"bytes_per_element must be one number, got {bytes_per_element!r}")
    return -(-model.parameters * numerator // denominator)


@dataclass(frozen=True)
class Workload:
    """What is asked of a model: `q_len` new tokens for each of `batch` sequences, the last of `context`."""

    batch: int
    context: int
    q_len: int
    dtype: str
    causal: bool = True

    def __post_init__(self) -> None:
        for name in ("batch", "context", "q_len"):
            require_count("Workload", name, getattr(self, name))
        if self.q_len > self.context:
            raise ValueError(f"Workload: q_len must be at most context = {self.context}, got {self.q_len}.")
        element_bytes(self.dtype)
        flag("causal", self.causal)


def prefill(batch: int, context: int, dtype: str, *, causal: bool = True) -> Workload:
    """Describe reading a whole prompt.

    Args:
        batch: sequences.
        context: tokens of each.
        dtype: of weights and activations.
        causal: count what the mask keeps; False counts every pair.
    """
    return Workload(batch, context, context, dtype, causal)


def decode(batch: int, context: int, dtype: str) -> Workload:
    """Describe one step that adds one token to each sequence.

    Args:
        batch: sequences.
        context: tokens of each, the new one included.
        dtype: of weights and activations.
    """
    return Workload(batch, context, 1, dtype)
