"""The arithmetic of the memory guard: what a call needs. Shared by the worker and the estimate. No torch."""

from __future__ import annotations

from lab.cost.calls import AttentionCall

WARM_HEAP_FACTOR = 4
"""A heap that keeps freed blocks fragments to 1.4-3.6 times the peak of one call."""


def input_bytes(call: AttentionCall) -> int:
    """Give the size of Q, K and V.

    Args:
        call: the shape.

    Returns:
        Bytes.
    """
    return (call.queries + 2 * call.keys) * call.element


def needed_bytes(
    call: AttentionCall, peak_bytes: int | None, *, copies: int = 1, warm_heap: bool = False
) -> int:
    """Give what must be free for a call to run.

    Args:
        call: the shape.
        peak_bytes: predicted peak beside the inputs; None without a closed form, then the output counts.
        copies: sets of inputs alive at a time.
        warm_heap: whether freed blocks stay in the heap of the CPU, which then fragments.

    Returns:
        Bytes.
    """
    peak = call.queries * call.element if peak_bytes is None else peak_bytes
    return copies * input_bytes(call) + peak * (WARM_HEAP_FACTOR if warm_heap else 1)
