"""Which of a model's weights one decode step reads, and how that depends on the batch.

A step reads every matrix once. It reads no table it only looks rows up in: the input embedding (unless it is
also the LM head, and read as that) and learned positions cost one row a sequence. Nor does it read the
projections of cross-attention's K and V, which are cached. Of a mixture it reads the experts that the batch
is routed to: an expectation, not a count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from lab.cost.exact import count, evaluate
from lab.cost.experts import expected_distinct_experts
from lab.cost.shapes import ModelShape


class Mixture(NamedTuple):
    """Layers with experts: how many, experts in each, experts a token uses, parameters of one expert."""

    layers: int
    experts: int
    active: int
    expert_parameters: int

    @property
    def parameters(self) -> int:
        """Parameters of all experts of all these layers."""
        return self.layers * self.experts * self.expert_parameters


@dataclass(frozen=True)
class StepWeights:
    """Parameters one step reads: `fixed` for any batch, rows looked up `per_sequence`, and the mixtures'."""

    fixed: int
    per_sequence: int
    mixtures: tuple[Mixture, ...]

    def parameters(self, batch: Any) -> Any:
        """Count the parameters read for a batch.

        Args:
            batch: sequences; an integer or an integer array.

        Returns:
            An exact integer without experts, else an expectation in float64.
        """
        sequences = count("batch", batch)
        read: Any = evaluate(lambda n: self.fixed + self.per_sequence * n, sequences)
        for mixture in self.mixtures:
            distinct = expected_distinct_experts(mixture.experts, mixture.active, sequences)
            read = read + mixture.layers * mixture.expert_parameters * distinct
        return read


def step_weights(model: ModelShape) -> StepWeights:
    """Split a model's parameters by how a decode step reads them.

    Args:
        model: the shape.

    Returns:
        The split; with every expert and what is not read added, it is `model.parameters`.
    """
    tables, rows = model.position_parameters, model.hidden if model.position_parameters else 0
    if not model.tied_embeddings:
        tables, rows = tables + model.embedding_parameters, rows + model.hidden
    mixtures = []
    cached = 0
    for kind, layers in model.layer_groups:
        if kind.cross_attention is not None:
            projections = (matrix for matrix in kind.cross_attention.matrices if matrix.name in ("k", "v"))
            cached += layers * sum(matrix.parameters for matrix in projections)
        block = kind.feed_forward
        if block is not None and block.active_experts < block.experts:
            stored = sum(matrix.parameters for matrix in block.matrices if matrix.copies > 1)
            mixtures.append(Mixture(layers, block.experts, block.active_experts, stored // block.experts))
    in_experts = sum(mixture.parameters for mixture in mixtures)
    return StepWeights(model.parameters - tables - cached - in_experts, rows, tuple(mixtures))
