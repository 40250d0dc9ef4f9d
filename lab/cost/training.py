"""FLOPs of a training step: forward, backward, and what checkpointing computes again.

Every product of the forward pass has two in the backward pass, one gradient for each operand. A fused
attention kernel, which kept no probabilities, forms QKᵀ once more: five products for the forward pass's two.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from lab.cost.budget import Budget, budget
from lab.cost.exact import Count, Number
from lab.cost.formulas import kv_bytes
from lab.cost.shapes import ModelShape, Workload

CHECKPOINTING = ("none", "attention", "full")
"""What the backward pass computes again: nothing, the attention core alone, each layer from its input."""

ATTENTION = ("materialised", "fused")
"""Whether the probabilities are written down and kept for the backward pass."""


@dataclass(frozen=True)
class TrainingBudget:
    """Matmul FLOPs of one training step over a batch."""

    forward: Budget
    recomputed_flops: int
    backward_flops: int

    @property
    def forward_flops(self) -> int:
        """FLOPs of the forward pass."""
        return self.forward.matmul_flops

    @property
    def total_flops(self) -> int:
        """Forward, recomputation and backward."""
        return self.forward_flops + self.recomputed_flops + self.backward_flops

    @property
    def core_factor(self) -> Fraction:
        """FLOPs of QKᵀ and PV forward and backward over forward alone, checkpointing left aside."""
        again = self.backward_flops - 2 * self.forward_flops  # QKᵀ, formed once more inside a fused kernel
        return 3 + Fraction(again, self.forward.core_flops)  # some layer of any ModelShape has attention


def training_budget(
    model: ModelShape, work: Workload, *, attention: str = "fused", checkpointing: str = "none"
) -> TrainingBudget:
    """Count the FLOPs of one training step.

    Args:
        model: the shape; all parameters are trained.
        work: a pass over whole sequences, q_len = context; causal or dense counting.
        attention: "materialised" or "fused".
        checkpointing: "none", "attention" (its core is computed again) or "full" (each layer is).

    Returns:
        FLOPs of forward, recomputation and backward.

    Raises:
        ValueError: an unknown option; a workload that is no whole pass.

    Source: backward = 2 · forward: Kaplan et al., arXiv:2001.08361, section 2.1. Fused: FlashAttention-2,
        arXiv:2307.08691, section 3.1. Checkpointing: Chen et al., arXiv:1604.06174; of attention alone:
        Korthikanti et al., arXiv:2205.05198.
    """
    check_training(work, attention, checkpointing)
    forward = budget(model, work)
    again = {
        "none": 0,
        "attention": forward.core_flops,
        "full": forward.matmul_flops - forward.lm_head_flops,
    }[checkpointing]
    scores = sum(term.total_flops for term in forward.terms if term.name.endswith("QKᵀ"))
    kernel = scores if attention == "fused" else 0  # QKᵀ is formed again inside the kernel
    return TrainingBudget(forward, again, 2 * forward.matmul_flops + kernel)


def backward_bytes(
    batch: int, heads: int, kv_heads: int, tokens: int, head_dim: int, bytes_per_element: Number
) -> Count:
    """Weigh what a training pass of one layer's attention must write: its output and the gradients of Q, K and V.

    Args:
        batch: sequences.
        heads: query heads.
        kv_heads: key/value heads.
        tokens: positions of each sequence.
        head_dim: width of a head, the same for keys and values.
        bytes_per_element: bytes of one number.

    Returns:
        Bytes: 2·batch·(heads + kv_heads)·tokens·head_dim·bytes_per_element.

    Raises:
        ValueError: a size below 1.
    """
    rows = (heads, kv_heads)  # output and dQ are as large as keys and values of every query head; dK and dV
    return sum(kv_bytes(batch, 1, each, tokens, head_dim, bytes_per_element) for each in rows)


def check_training(work: Workload, attention: str, checkpointing: str) -> None:
    """Refuse what is no training step.

    Args:
        work: the pass.
        attention: one of ATTENTION.
        checkpointing: one of CHECKPOINTING.

    Raises:
        ValueError: an unknown option; q_len other than context.
    """
    if attention not in ATTENTION:
        raise ValueError(f"attention must be one of {', '.join(ATTENTION)}, got {attention!r}")
    if checkpointing not in CHECKPOINTING:
        raise ValueError(f"checkpointing must be one of {', '.join(CHECKPOINTING)}, got {checkpointing!r}")
    if work.q_len != work.context:
        raise ValueError(f"q_len must be the context in training, got {work.q_len} of {work.context}")
