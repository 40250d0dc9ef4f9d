"""One attention call: its shape, checked once, and the sizes of its tensors in elements."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from lab.cost.exact import count, flag
from lab.cost.formulas import element_bytes

IMPLEMENTATIONS = ("naive", "naive_inplace", "math", "flash", "efficient")
"""What can compute one call: two eager functions of lab.measure and three kernels of PyTorch's SDPA."""

DEVICES = ("cpu", "cuda")


@dataclass(frozen=True, kw_only=True)
class AttentionCall:
    """The shape of softmax(QKᵀ/√d)V for a batch; queries are the last q_len positions when causal.

    `threads` matters for CPU scratch only. `device` is the kind of device, "cpu" or "cuda". `cold`: K and V come from
    memory, not from a cache that kept them since the last call, as in a decode step of a model whose weights are read
    in between; it matters for predicted times of one query only.
    """

    batch: int
    heads: int
    kv_heads: int
    q_len: int
    kv_len: int
    head_dim: int
    dtype: str
    causal: bool
    threads: int = 1
    device: str = "cpu"
    cold: bool = False

    def __post_init__(self) -> None:
        """Check every size and name."""
        for name in ("batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim", "threads"):
            value = count(name, getattr(self, name))
            if not isinstance(value, int):
                raise ValueError(f"{name} must be one whole number, got an array of {value.size}")
            object.__setattr__(self, name, value)
        if self.heads % self.kv_heads:
            raise ValueError(
                f"kv_heads must divide heads, got kv_heads={self.kv_heads} and heads={self.heads}"
            )
        if flag("causal", self.causal) and self.kv_len < self.q_len:
            raise ValueError(
                f"kv_len must be at least q_len when causal, got kv_len={self.kv_len} and q_len={self.q_len}"
            )
        if self.device not in DEVICES:
            raise ValueError(f"device must be one of {', '.join(DEVICES)}, got {self.device!r}")
        element_bytes(self.dtype)

    @property
    def shape(self) -> dict[str, Any]:
        """The arguments that lab.cost.traffic takes; where K and V come from moves no byte more or less."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "cold"}

    @property
    def element(self) -> int:
        """Bytes of one element of the inputs and the output."""
        return element_bytes(self.dtype)

    @property
    def accumulator(self) -> int:
        """Bytes of the type that library kernels accumulate in: fp64 for fp64, else fp32."""
        return max(4, self.element)

    @property
    def promoted(self) -> bool:
        """Whether the inputs are narrower than the accumulator."""
        return self.element < self.accumulator

    @property
    def grouped(self) -> bool:
        """Whether several query heads share a key/value head."""
        return self.kv_heads != self.heads

    @property
    def masked(self) -> bool:
        """Whether a causal mask hides anything: a single last query sees every key."""
        return self.causal and self.q_len > 1

    @property
    def explicit_mask(self) -> bool:
        """Whether PyTorch must be given a mask: its own is_causal starts at the first keys, not the last."""
        return self.masked and self.q_len != self.kv_len

    @cached_property
    def scores(self) -> int:
        """Elements of the score tensor."""
        return self.batch * self.heads * self.q_len * self.kv_len

    @cached_property
    def rows(self) -> int:
        """Score rows: one maximum, sum or log-sum-exp each."""
        return self.batch * self.heads * self.q_len

    @cached_property
    def queries(self) -> int:
        """Elements of Q, and of the output."""
        return self.rows * self.head_dim

    @cached_property
    def keys(self) -> int:
        """Elements of K, and of V, as given."""
        return self.batch * self.kv_heads * self.kv_len * self.head_dim

    @cached_property
    def repeated_keys(self) -> int:
        """Elements of K, and of V, repeated for every query head."""
        return self.batch * self.heads * self.kv_len * self.head_dim

    @cached_property
    def mask(self) -> int:
        """Elements of a mask shared by batch and heads."""
        return self.q_len * self.kv_len


def check_implementation(implementation: str, call: AttentionCall) -> None:
    """Refuse an implementation that does not exist or does not compute this call.

    Args:
        implementation: one of `IMPLEMENTATIONS`.
        call: the shape.

    Raises:
        ValueError: an unknown name; a kernel the device lacks; a mask or heads its kernel does not take.
    """
    if implementation not in IMPLEMENTATIONS:
        raise ValueError(
            f"implementation must be one of {', '.join(IMPLEMENTATIONS)}, got {implementation!r}"
        )
    if implementation == "efficient" and call.device == "cpu":
        raise ValueError("implementation 'efficient' exists only on device 'cuda', got device 'cpu'")
    if call.device == "cpu" or implementation not in ("flash", "efficient"):
        return
    if call.explicit_mask:
        raise ValueError(
            f"implementation {implementation!r} on cuda needs q_len = 1 or q_len = kv_len when causal (its "
            f"mask starts at the first keys), got q_len={call.q_len} and kv_len={call.kv_len}"
        )
    if implementation == "efficient" and call.grouped:
        raise ValueError(
            f"implementation 'efficient' with grouped heads is not modelled, got kv_heads={call.kv_heads} "
            f"and heads={call.heads}"
        )
