"""One profiled, untimed call: the operators it ran, the device kernels, and the memory it held on the CPU.

`torch.autograd.profiler` is used and not `torch.profiler`: it is the same recorder, but the latter loads for
over a second, which a reader would wait for before the first point.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch._C._profiler import _EventType

NOT_KERNELS = ("Memcpy", "Memset", "Context Sync", "Stream Sync", "Stream Wait", "Event Sync", "[")
"""How the profiler's other events on a device begin; "[memory]" is an allocation."""


@dataclass(frozen=True)
class Trace:
    """What one call did.

    Args:
        operators: names of PyTorch operators such as "aten::bmm", in the order they started.
        kernels: names of kernels on an accelerator, in the order they started; empty on the CPU.
        peak_bytes: most CPU memory alive at once beyond what was alive before, the output included.
    """

    operators: tuple[str, ...]
    kernels: tuple[str, ...]
    peak_bytes: int


def record(call: Callable[[], Any], device_kind: str = "cpu") -> Trace:
    """Run a call once under the profiler.

    Args:
        call: what to run; call it once before, so that one-time allocations are not seen.
        device_kind: "cpu", or the accelerator whose kernels are wanted.

    Returns:
        The trace.
    """
    accelerator = device_kind if device_kind in ("cuda", "xpu") else None
    # Without use_kineto a card's kernels are timed by events of the host and have no names
    profiler = torch.autograd.profiler.profile(
        profile_memory=True, use_device=accelerator, use_kineto=accelerator is not None
    )
    with quiet_stderr():
        with profiler:
            output = call()
            if accelerator:
                getattr(torch, accelerator).synchronize()
        del output  # kept alive to the end of the recording, so that it counts
    results: Any = profiler.kineto_results
    events = _in_order(results.experimental_event_tree())
    return Trace(
        tuple(event.name for event in events if event.tag == _EventType.TorchOp),
        _kernels(results.events()),
        _peak_bytes(events),
    )


def _in_order(tree: list[Any]) -> list[Any]:
    """List every event of the tree by start time."""
    events = []
    pending = list(tree)
    while pending:
        event = pending.pop()
        pending.extend(event.children)
        events.append(event)
    return sorted(events, key=lambda event: event.start_time_ns)


def _kernels(events: Iterable[Any]) -> tuple[str, ...]:
    """Name the kernels of an accelerator in the order they started."""
    kernels = sorted(filter(_is_kernel, events), key=lambda event: event.start_ns())
    return tuple(event.name() for event in kernels)


def _is_kernel(event: Any) -> bool:
    """Say whether an event is a kernel of an accelerator and not a copy, a fill, a wait or an allocation."""
    on_cpu = event.device_type() == torch._C._autograd.DeviceType.CPU
    return not on_cpu and not event.name().startswith(NOT_KERNELS)


def _peak_bytes(events: list[Any]) -> int:
    """Add up the CPU's allocation events in order and give the highest sum."""
    sizes = [
        event.extra_fields.alloc_size
        for event in events
        if event.tag == _EventType.Allocation and event.extra_fields.device.type == "cpu"
    ]
    return max(accumulate(sizes), default=0)


@contextmanager
def quiet_stderr() -> Iterator[None]:
    """Send the process's standard error to nowhere: each recording makes PyTorch print two lines to it."""
    sys.stderr.flush()
    saved = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)
