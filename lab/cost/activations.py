"""Activations that a training step keeps between forward and backward, layer by layer, tensor by tensor.

Counted is what plain PyTorch modules keep: the inputs of each product, of each norm and of each activation
function, a tensor that two of them keep counted once. Row statistics of norms (a few bytes a token) and the
mask are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lab.cost.exact import flag
from lab.cost.formulas import element_bytes
from lab.cost.layers import Attention, FeedForward
from lab.cost.shapes import LayerKind, ModelShape, Workload
from lab.cost.training import check_training


class Kept(NamedTuple):
    """One kept tensor: elements a token, bytes an element."""

    name: str
    elements: int
    element: int

    @property
    def token_bytes(self) -> int:
        """Bytes a token."""
        return self.elements * self.element


@dataclass(frozen=True)
class LayerActivations:
    """What one layer of a kind keeps for the backward pass."""

    kind: LayerKind
    layers: int
    tokens: int
    kept: tuple[Kept, ...]

    @property
    def bytes(self) -> int:
        """Bytes of one layer."""
        return self.tokens * sum(tensor.token_bytes for tensor in self.kept)


@dataclass(frozen=True)
class StoredActivations:
    """What a training step keeps: in the layers, at the head, and while one layer is recomputed."""

    layers: tuple[LayerActivations, ...]
    head_bytes: int
    recomputing_bytes: int

    @property
    def layer_bytes(self) -> int:
        """Bytes kept by all layers until the backward pass reaches them."""
        return sum(layer.layers * layer.bytes for layer in self.layers)

    @property
    def peak_bytes(self) -> int:
        """Bytes at most: all layers, and the larger of the head and of one layer being recomputed."""
        return self.layer_bytes + max(self.head_bytes, self.recomputing_bytes)


def stored_activations(
    model: ModelShape,
    work: Workload,
    *,
    attention: str = "fused",
    checkpointing: str = "none",
    dropout: bool = False,
) -> StoredActivations:
    """Weigh the activations kept for the backward pass.

    Args:
        model: the shape, without recurrent or cross-attention layers.
        work: a pass over whole sequences; dtype is that of the activations.
        attention: "materialised" keeps the probabilities, "fused" one number a row instead.
        checkpointing: "none", "attention" (probabilities are formed again) or "full" (a layer keeps its
            input).
        dropout: whether probabilities and both block outputs pass a dropout, whose masks take a byte an
            element.

    Returns:
        Bytes, opened by layer and tensor. The head keeps its input and the loss's log-probabilities in fp32.

    Raises:
        ValueError: an unknown option; layers that are not modelled.

    Source: Korthikanti et al., arXiv:2205.05198, section 4.1, equation 1: 34·s·b·h + 5·a·s²·b bytes a layer
        of GPT in 16 bits with dropout; generalised to grouped heads, gated blocks and experts.
    """
    check_training(work, attention, checkpointing)
    flag("dropout", dropout)
    element = element_bytes(work.dtype)
    tokens = work.batch * work.q_len
    whole = []
    for kind, layers in model.layer_groups:
        if kind.attention is None or kind.cross_attention is not None or kind.recurrent is not None:
            raise ValueError(f"model {model.id!r} has layers whose stored activations are not modelled")
        scores = attention if checkpointing != "attention" else "recomputed"
        kept = _layer(kind, work.context, element, scores, dropout)
        whole.append(LayerActivations(kind, layers, tokens, tuple(kept)))
    head = tokens * (2 * model.hidden * element + 4 * model.vocab)
    if checkpointing != "full":
        return StoredActivations(tuple(whole), head, 0)
    inputs = tuple(
        LayerActivations(layer.kind, layer.layers, tokens, (Kept("layer input", model.hidden, element),))
        for layer in whole
    )
    return StoredActivations(inputs, head, max(layer.bytes for layer in whole))


def _layer(kind: LayerKind, context: int, element: int, scores: str, dropout: bool) -> list[Kept]:
    kept: list[Kept] = []
    blocks = 0
    if kind.attention is not None:
        blocks += 1
        kept += _attention(kind.attention, element)
        kept += _scores(kind.attention, context, element, scores, dropout)
    if kind.feed_forward is not None:
        blocks += 1
        kept += _feed_forward(kind.feed_forward, element)
    if dropout:
        kept.append(Kept("masks of block outputs", blocks * kept[0].elements, 1))
    return kept


def _attention(attention: Attention, element: int) -> list[Kept]:
    """Inputs of the norm and of every product around the core; of MLA also the compressed vectors."""
    heads = attention.heads
    kept = [
        Kept("attention norm's input", attention.hidden, element),
        Kept("projections' input", attention.hidden, element),
        Kept("q", heads * attention.head_dim, element),
        Kept("k", attention.kv_heads * attention.head_dim, element),
        Kept("v", attention.kv_heads * attention.head_dim_v, element),
        Kept("out's input", heads * attention.head_dim_v, element),
    ]
    if attention.latent is not None:
        ranks = attention.latent.kv_rank + (attention.latent.q_rank or 0)
        kept += [
            Kept("compressed, before norm", ranks, element),
            Kept("compressed, after norm", ranks, element),
        ]
    return kept


def _scores(attention: Attention, context: int, element: int, scores: str, dropout: bool) -> list[Kept]:
    """What the core keeps: the probabilities of all pairs, or one number a row, or nothing."""
    if scores == "recomputed":
        return []
    if scores == "fused":
        return [Kept("log-sum-exp", attention.heads, 4)]
    row = attention.heads * context
    kept = [Kept("probabilities", row, element)]
    if dropout:
        kept += [Kept("mask of probabilities", row, 1), Kept("dropped probabilities", row, element)]
    return kept


def _feed_forward(block: FeedForward, element: int) -> list[Kept]:
    """Inputs of the norm, of both products and of the activation; gated also the operands of the gate."""
    kept = [
        Kept("feed-forward norm's input", block.hidden, element),
        Kept("feed-forward's input", block.hidden, element),
    ]
    width = block.active_experts * block.intermediate + block.shared_intermediate
    names = ("gate", "up", "activated gate", "down's input") if block.gated else ("up", "down's input")
    kept += [Kept(name, width, element) for name in names]
    if block.is_moe:
        gathered = block.active_experts * block.hidden
        kept += [Kept("experts' inputs", gathered, element), Kept("experts' outputs", gathered, element)]
    return kept
