"""The memory guard: what a call will need, against what may be taken, before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lab.cost.calls import AttentionCall
from lab.cost.traffic import peak_extra_bytes
from lab.measure import allocator
from lab.measure.device import Device
from lab.measure.implementations import IMPLEMENTATIONS
from lab.measure.need import WARM_HEAP_FACTOR, input_bytes, needed_bytes
from lab.runs.checks import LARGEST_INT

__all__ = ["WARM_HEAP_FACTOR", "Need", "gib", "guard", "input_bytes", "predicted_peak"]


@dataclass(frozen=True)
class Need:
    """What a cell needs and what may be taken, in bytes; the latter None where the system does not say."""

    need_bytes: int
    have_bytes: int | None

    @property
    def fits(self) -> bool:
        """Whether the cell may run: nothing known speaks against it."""
        if self.need_bytes > LARGEST_INT:
            return False
        return self.have_bytes is None or self.need_bytes <= self.have_bytes

    @property
    def sizes(self) -> dict[str, Any]:
        """What a refused point records of it: nothing where need is past what a run can hold."""
        if self.need_bytes > LARGEST_INT:
            return {}
        return {"need_bytes": self.need_bytes, "have_bytes": self.have_bytes}

    @property
    def reason(self) -> str:
        """The refusal in words."""
        if self.need_bytes > LARGEST_INT:
            return f"needs {gib(self.need_bytes)} of memory, more than any machine can address"
        have = 0 if self.have_bytes is None else self.have_bytes
        return f"needs {gib(self.need_bytes)} of memory, {gib(have)} may be taken"


def gib(size_bytes: int) -> str:
    """Write a size in GiB.

    Args:
        size_bytes: the size.

    Returns:
        Text such as "6.00 GiB".
    """
    return f"{size_bytes / 2**30:.2f} GiB"


def predicted_peak(implementation: str, call: AttentionCall, backend: str | None = None) -> int | None:
    """Predict the peak of one call beyond its inputs.

    Args:
        implementation: a name of `IMPLEMENTATIONS`.
        call: the shape.
        backend: for PyTorch's default dispatch, the backend it took.

    Returns:
        Bytes, or None where lab.cost has no closed form for it, or they are past what a run can hold.
    """
    peak = _peak(implementation, call, backend)
    return None if peak is None or peak > LARGEST_INT else peak


def _peak(implementation: str, call: AttentionCall, backend: str | None) -> int | None:
    name = IMPLEMENTATIONS[implementation].cost_name or backend
    if name is None:
        return None
    try:
        return peak_extra_bytes(name, **call.shape)
    except ValueError:  # a call this implementation does not compute; the attempt gives the reason
        return None


def guard(
    implementation: str, call: AttentionCall, device: Device, *, copies: int = 1, warm_heap: bool = False
) -> Need:
    """Compare what a cell needs with what may be taken.

    Args:
        implementation: a name of `IMPLEMENTATIONS`.
        call: the shape.
        device: where it would run.
        copies: sets of inputs alive at a time.
        warm_heap: whether freed blocks stay in the heap, which then fragments.

    Returns:
        Need and have. Without a closed form the output alone is counted beside the inputs.
    """
    peak = _peak(implementation, call, "flash")
    on_cpu = device.kind == "cpu"
    need = needed_bytes(call, peak, copies=copies, warm_heap=warm_heap and on_cpu)
    free = device.free_bytes()
    return Need(need, allocator.usable_bytes(free) if on_cpu else free)
