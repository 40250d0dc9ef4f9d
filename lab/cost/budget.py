"""The budget of one forward pass: FLOPs and bytes of each part of each kind of layer, and of the head.

Prefill and decode are the same formulas: a `Workload` of q_len new tokens, the last of `context`. With
`causal=True` windows and chunks are exact; with `causal=False` every query meets every key, as in a kernel
that applies its mask to the full product. Both numbers are meant to be shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from lab.cost.flops import (
    LATENT_FORMS,
    core_flops,
    layer_scores,
    matrix_flops,
    projection_flops,
    softmax_of_scores,
    state_flops,
    usual_form,
)
from lab.cost.formulas import element_bytes, logits_bytes, mask_bytes, score_bytes
from lab.cost.shapes import LayerKind, ModelShape, Workload

LOGITS = ("all", "last", "none")
"""Positions the LM head is applied to: all new ones, the last of each sequence, or no head at all."""


class Term(NamedTuple):
    """One matrix product: its part of the budget, its name, FLOPs in one layer, how many layers have it."""

    part: str  # "projections", "attention core", "recurrent state", "feed-forward" or "LM head"
    name: str
    flops: int
    layers: int

    @property
    def total_flops(self) -> int:
        """FLOPs of all layers."""
        return self.flops * self.layers


@dataclass(frozen=True)
class LayerBudget:
    """FLOPs of one layer of a kind, by matrix; `layers` says how many there are."""

    kind: LayerKind
    layers: int
    projections: dict[str, int]
    core: dict[str, int]
    state: dict[str, int]
    feed_forward: dict[str, int]
    scores: int

    @cached_property
    def projection_flops(self) -> int:
        """FLOPs of the projections of one layer."""
        return sum(self.projections.values())

    @cached_property
    def core_flops(self) -> int:
        """FLOPs of QKᵀ and PV of one layer."""
        return sum(self.core.values())

    @cached_property
    def state_flops(self) -> int:
        """FLOPs of a recurrent mixer's state and convolution in one layer."""
        return sum(self.state.values())

    @cached_property
    def feed_forward_flops(self) -> int:
        """FLOPs of the feed-forward block of one layer."""
        return sum(self.feed_forward.values())

    @property
    def matmul_flops(self) -> int:
        """FLOPs of all products of one layer."""
        return self.projection_flops + self.core_flops + self.state_flops + self.feed_forward_flops

    @property
    def softmax_operations(self) -> int:
        """Elementwise operations of one layer's softmax."""
        return softmax_of_scores(self.scores)


@dataclass(frozen=True)
class Budget:
    """FLOPs and tensors of one forward pass; every total opens into `terms`."""

    model: ModelShape
    work: Workload
    layers: tuple[LayerBudget, ...]
    logits_positions: int
    lm_head_flops: int

    @cached_property
    def projection_flops(self) -> int:
        """FLOPs of all projections."""
        return sum(layer.layers * layer.projection_flops for layer in self.layers)

    @cached_property
    def core_flops(self) -> int:
        """FLOPs of all attention cores: the part that grows with the square of the context."""
        return sum(layer.layers * layer.core_flops for layer in self.layers)

    @cached_property
    def state_flops(self) -> int:
        """FLOPs of the states and convolutions of all recurrent mixers."""
        return sum(layer.layers * layer.state_flops for layer in self.layers)

    @cached_property
    def feed_forward_flops(self) -> int:
        """FLOPs of all feed-forward blocks."""
        return sum(layer.layers * layer.feed_forward_flops for layer in self.layers)

    @cached_property
    def matmul_flops(self) -> int:
        """FLOPs of all products of the pass."""
        layers = self.projection_flops + self.core_flops + self.state_flops + self.feed_forward_flops
        return layers + self.lm_head_flops

    @property
    def softmax_operations(self) -> int:
        """Elementwise operations of all softmaxes, not part of `matmul_flops`."""
        return sum(layer.layers * layer.softmax_operations for layer in self.layers)

    @property
    def attention_share(self) -> Fraction:
        """The attention core's share of all matmul FLOPs."""
        return Fraction(self.core_flops, self.matmul_flops)

    @property
    def terms(self) -> Iterator[Term]:
        """Every product of the pass."""
        for layer in self.layers:
            for part, products in (
                ("projections", layer.projections),
                ("attention core", layer.core),
                ("recurrent state", layer.state),
                ("feed-forward", layer.feed_forward),
            ):
                for name, flops in products.items():
                    yield Term(part, name, flops, layer.layers)
        if self.lm_head_flops:
            yield Term("LM head", "lm_head", self.lm_head_flops, 1)

    @property
    def logits_bytes(self) -> int:
        """Bytes of the logits in the workload's dtype; 0 without an LM head."""
        if not self.logits_positions:
            return 0
        size = element_bytes(self.work.dtype)
        return int(logits_bytes(self.work.batch, self.logits_positions, self.model.vocab, size))

    @property
    def score_bytes(self) -> int:
        """Bytes of the largest layer's score tensor, where an implementation writes it down."""
        heads = max(layer.kind.attention.heads for layer in self.layers if layer.kind.attention)
        size = element_bytes(self.work.dtype)
        return int(score_bytes(self.work.batch, heads, self.work.q_len, self.work.context, size))

    @property
    def mask_bytes(self) -> int:
        """Bytes of a boolean mask shared by batch and heads."""
        return int(mask_bytes(self.work.q_len, self.work.context, 1))


def budget(
    model: ModelShape,
    work: Workload,
    *,
    logits: str = "all",
    latent_form: str | None = None,
    source_tokens: int | None = None,
) -> Budget:
    """Count the FLOPs of one forward pass.

    Args:
        model: the shape.
        work: the pass: batch, context, new tokens, dtype, causal or dense counting.
        logits: "all" new positions, the "last" of each sequence, or "none" (no LM head).
        latent_form: how MLA is computed, one of lab.cost.flops.LATENT_FORMS; None for `usual_form`.
        source_tokens: length of the other sequence, for models with cross-attention. A prefill (q_len =
            context) projects its K and V; a later pass finds them cached.

    Returns:
        The budget. Of a mixture of experts, the experts that tokens use are counted.

    Raises:
        ValueError: an unknown option; cross-attention without source_tokens.
    """
    if logits not in LOGITS:
        raise ValueError(f"logits must be one of {', '.join(LOGITS)}, got {logits!r}")
    form = usual_form(work) if latent_form is None else latent_form
    if form not in LATENT_FORMS:
        raise ValueError(f"latent_form must be one of {', '.join(LATENT_FORMS)}, got {form!r}")
    layers = tuple(
        _layer_budget(kind, layers, work, form, source_tokens) for kind, layers in model.layer_groups
    )
    positions = {"all": work.q_len, "last": 1, "none": 0}[logits]
    head = 2 * work.batch * positions * model.hidden * model.vocab
    return Budget(model, work, layers, positions, head)


def _layer_budget(
    kind: LayerKind, layers: int, work: Workload, latent_form: str, source_tokens: int | None
) -> LayerBudget:
    projections: dict[str, int] = {}
    core: dict[str, int] = {}
    state: dict[str, int] = {}
    scores = 0
    if kind.attention is not None:
        scores = layer_scores(kind.attention, work)
        projections |= projection_flops(kind.attention, work, latent_form=latent_form)
        core |= core_flops(kind.attention, scores, latent_form)
    if kind.recurrent is not None:
        projections |= matrix_flops(kind.recurrent, work)
        state |= state_flops(kind.recurrent, work)
    if kind.cross_attention is not None:
        cross = kind.cross_attention
        cross_scores = layer_scores(cross, work, source_tokens)
        projected = source_tokens if source_tokens and work.q_len == work.context else 0
        products = projection_flops(cross, work, projected)
        projections |= {f"cross {name}": flops for name, flops in products.items()}
        core |= {f"cross {name}": flops for name, flops in core_flops(cross, cross_scores).items()}
        scores += cross_scores
    block = kind.feed_forward
    feed_forward = {} if block is None else matrix_flops(block, work)
    return LayerBudget(kind, layers, projections, core, state, feed_forward, scores)
