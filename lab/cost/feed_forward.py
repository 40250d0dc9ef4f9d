"""The feed-forward block of a layer: dense or a mixture of experts, gated or not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from lab.cost.matrix import Matrix, require_count


@dataclass(frozen=True, kw_only=True)
class FeedForward:
    """A dense or mixture-of-experts feed-forward block, gated (three matrices) or not (two)."""

    hidden: int
    intermediate: int  # width of the dense block, or of one expert
    gated: bool
    in_bias: bool = False
    out_bias: bool = False
    experts: int = 1
    active_experts: int = 1
    shared_intermediate: int = 0  # width of the always-active expert, several shared ones added up
    shared_gate: bool = False  # a learned scalar weighs the shared expert
    router_bias: bool = False

    def __post_init__(self) -> None:
        for name in ("hidden", "intermediate", "experts", "active_experts"):
            require_count("FeedForward", name, getattr(self, name))
        require_count("FeedForward", "shared_intermediate", self.shared_intermediate, minimum=0)
        if self.active_experts > self.experts:
            raise ValueError(
                f"FeedForward: active_experts must be at most experts = {self.experts}, "
                f"got {self.active_experts}."
            )

    @property
    def is_moe(self) -> bool:
        """Whether a router chooses experts."""
        return self.experts > 1

    @cached_property
    def matrices(self) -> tuple[Matrix, ...]:
        """Router (if any), experts or dense block, shared expert (if any)."""
        found = self._block("", self.intermediate, self.experts, self.active_experts)
        if self.is_moe:
            found = (Matrix("router", self.hidden, self.experts, self.router_bias), *found)
        if self.shared_intermediate:
            found += self._block("shared_", self.shared_intermediate, 1, 1)
        if self.shared_gate:
            found += (Matrix("shared_gate", self.hidden, 1),)
        return found

    def _block(self, prefix: str, width: int, copies: int, active: int) -> tuple[Matrix, ...]:
        up = Matrix(f"{prefix}up", self.hidden, width, self.in_bias, copies, active)
        down = Matrix(f"{prefix}down", width, self.hidden, self.out_bias, copies, active)
        if not self.gated:
            return (up, down)
        return (up._replace(name=f"{prefix}gate"), up, down)

    @property
    def parameters(self) -> int:
        """Weights and biases of all experts."""
        return sum(matrix.parameters for matrix in self.matrices)

    @property
    def active_parameters(self) -> int:
        """Weights and biases that one token uses."""
        return sum(matrix.active_parameters for matrix in self.matrices)
