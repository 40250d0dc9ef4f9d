"""A device that can be measured: how it waits, times, counts memory and is named.

`Device` serves the CPU; `accelerators.py` changes what differs elsewhere. No code path assumes that a device
exists. What a kind of device cannot tell is listed in its `gaps`.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from typing import Any, ClassVar

import torch

from lab.measure import host
from lab.measure.trace import record

DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

# x86 and Arm flags of processors that multiply matrices of that type natively
FAST_ON_CPU = {
    "bf16": frozenset({"avx512_bf16", "amx_bf16", "avx_ne_convert", "bf16"}),
    "fp16": frozenset({"avx512_fp16", "amx_fp16", "asimdhp"}),
}

OVERSUBSCRIBED = (
    "the allocator's peak exceeds the card's memory, so part of it lay in system memory: not timed"
)
"""Why a time is withheld where a driver pages the card's memory, as Windows' does."""

Call = Callable[[], Any]


class Device:
    """A device and what can be asked of it; this base serves the CPU, subclasses change what differs."""

    kind: ClassVar[str] = "cpu"
    shortest_block_s: ClassVar[float] = 10e-3
    gaps: ClassVar[tuple[str, ...]] = ()

    def __init__(self, index: int = 0) -> None:
        """Take the device of this kind with that index."""
        self.index = index
        self.torch_device = torch.device("cpu") if self.kind == "cpu" else torch.device(self.kind, index)

    def activate(self) -> None:
        """Make it the device that events and launches of this process go to."""

    def synchronise(self) -> None:
        """Wait until everything asked of the device is done."""

    def time_block(self, call: Call, calls: int) -> float:
        """Time a block of calls.

        Args:
            call: what to run.
            calls: how many times, back to back.

        Returns:
            Seconds per call.
        """
        self.synchronise()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        self.synchronise()
        return (time.perf_counter() - start) / calls

    def peak_extra_bytes(self, call: Call) -> int | None:
        """Measure the memory one call holds beyond what is alive before it, the output included.

        Args:
            call: what to run; run once before, so that one-time workspaces are not counted.

        Returns:
            Bytes, or None where the device cannot tell.
        """
        return record(call).peak_bytes

    def free_bytes(self) -> int | None:
        """Give the memory that can still be taken, or None where the system does not say."""
        return host.free_memory_bytes()

    def total_bytes(self) -> int | None:
        """Give the memory of the device, or None where the system does not say."""
        return host.memory_bytes()

    def last_cache_bytes(self) -> int | None:
        """Give the last cache before memory, or None where the system does not say."""
        return host.last_cache_bytes()

    def oversubscribed(self) -> bool:
        """Say whether the peak so far exceeds the device's own memory, so that part of it lay elsewhere."""
        return False

    def release(self) -> None:
        """Hand memory that the allocator keeps for later back to the device."""

    def default_dtype(self) -> str:
        """Give the dtype the device is good at."""
        return "bf16" if host.cpu_flags() & FAST_ON_CPU["bf16"] else "fp32"

    def dtypes(self) -> tuple[str, ...]:
        """List the dtypes the device computes in."""
        return tuple(DTYPES)

    def dtype_warning(self, dtype: str) -> str | None:
        """Say what a reader should know before believing times in a dtype, or None."""
        flags = host.cpu_flags()
        if dtype not in FAST_ON_CPU or not flags or flags & FAST_ON_CPU[dtype]:
            return None
        if dtype == "fp16":
            return "fp16 is slow here: this CPU has no avx512_fp16 or amx_fp16, so fp16 matmuls are emulated"
        return "bf16 is emulated here: this CPU has no avx512_bf16 or amx_bf16"

    def name(self) -> str:
        """Give the name of the processor or the card."""
        return host.cpu_name()

    def identity(self) -> dict[str, Any]:
        """Give what the device is, as JSON values, with no name of a host or a user and no path."""
        return {
            "device_kind": self.kind,
            "device_name": self.name(),
            "driver": None,
            "memory_bytes": self.total_bytes(),
            "free_bytes": self.free_bytes(),
            "last_cache_bytes": self.last_cache_bytes(),
            "cpu_name": host.cpu_name(),
            "cores": host.cores(),
            "threads": torch.get_num_threads(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "torch": torch.__version__,
            "python": platform.python_version(),
            "os": host.system(),
            "gaps": list(self.gaps),
        }
