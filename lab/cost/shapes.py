"""A whole model as a shape: kinds of layers with their order, embeddings, head; and the work asked of it.

Equal layers share one `LayerKind`, so that a budget sums over the few kinds there are, not over all layers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from lab.cost.exact import flag
from lab.cost.formulas import element_bytes
from lab.cost.layers import Attention, FeedForward, require_count


@dataclass(frozen=True, kw_only=True)
class LayerKind:
    """One kind of layer: its attention, its feed-forward block and the norms around them."""

    attention: Attention
    feed_forward: FeedForward
    norm_parameters: int  # norms outside the two blocks, weights and biases
    cross_attention: Attention | None = None

    def __post_init__(self) -> None:
        require_count("LayerKind", "norm_parameters", self.norm_parameters, minimum=0)

    @property
    def parameters(self) -> int:
        """Weights, biases and norms of one such layer."""
        cross = self.cross_attention.parameters if self.cross_attention else 0
        return self.attention.parameters + cross + self.feed_forward.parameters + self.norm_parameters


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
    max_context: int | None = None
    sources: tuple[str, ...] = ()
    notes: str = ""
    published_parameters: float | None = None

    def __post_init__(self) -> None:
        for name in ("hidden", "vocab"):
            require_count("ModelShape", name, getattr(self, name))
        for name in ("final_norm_parameters", "position_parameters"):
            require_count("ModelShape", name, getattr(self, name), minimum=0)
        if self.max_context is not None:
            require_count("ModelShape", "max_context", self.max_context)
        if not self.kinds or set(self.order) != set(range(len(self.kinds))):
            raise ValueError("ModelShape: order must name each of its kinds of layer, and no other.")

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
        full = [kind.attention for kind in self.kinds if kind.attention.span == "full"]
        return (full or [kind.attention for kind in self.kinds])[0]

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
        """The window of each kind of layer: None where it sees everything, or a chunk."""
        return tuple(kind.attention.window for kind in self.kinds)

    @property
    def embedding_parameters(self) -> int:
        """Rows of the token table times hidden; a tied LM head is this same table."""
        return self.vocab * self.hidden

    @property
    def lm_head_parameters(self) -> int:
        """Weights of the LM head of its own; 0 when it is the token table."""
        return 0 if self.tied_embeddings else self.vocab * self.hidden

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
        idle = sum(
            count * (kind.feed_forward.parameters - kind.feed_forward.active_parameters)
            for kind, count in self.layer_groups
        )
        return self.parameters - idle


def weight_bytes(model: ModelShape, bytes_per_element: int) -> int:
    """Weigh all parameters of a model.

    Args:
        model: any shape.
        bytes_per_element: bytes of one parameter.

    Returns:
        Bytes.

    Raises:
        ValueError: bytes_per_element is no whole number of at least 1.
    """
    require_count("weight_bytes", "bytes_per_element", bytes_per_element)
    return model.parameters * bytes_per_element


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
