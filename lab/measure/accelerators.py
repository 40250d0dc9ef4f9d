"""Accelerators: CUDA and ROCm cards, Intel's XPU and Apple's MPS, and the choice of a device by its name."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import torch

from lab.measure.attention import float64_device
from lab.measure.clocks import Clocks, clocks_of
from lab.measure.device import Call, Device


class Accelerator(Device):
    """What CUDA, ROCm and XPU share: events, allocator statistics, free memory."""

    shortest_block_s = 1e-3

    @property
    def module(self) -> Any:
        """PyTorch's module for this kind of device."""
        return getattr(torch, self.kind)

    def activate(self) -> None:
        """Make it the device that events and launches of this process go to."""
        self.module.set_device(self.torch_device)

    def synchronise(self) -> None:
        """Wait until everything asked of the device is done."""
        self.module.synchronize(self.torch_device)

    def time_block(self, call: Call, calls: int) -> float:
        """Time a block of calls by the device's own clock, between two events."""
        start, end = self.module.Event(enable_timing=True), self.module.Event(enable_timing=True)
        self.synchronise()
        start.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000 / calls

    def peak_extra_bytes(self, call: Call) -> int | None:
        """Measure one call's allocator peak beyond what is alive before it, the output included."""
        self.synchronise()
        self.module.reset_peak_memory_stats(self.torch_device)
        before = self.module.memory_allocated(self.torch_device)
        output = call()
        self.synchronise()
        del output
        return int(self.module.max_memory_allocated(self.torch_device)) - int(before)

    def free_bytes(self) -> int | None:
        """Give the card's free memory and what the allocator keeps without using it."""
        free, _ = self.module.mem_get_info(self.torch_device)
        kept = self.module.memory_reserved(self.torch_device) - self.module.memory_allocated(
            self.torch_device
        )
        return int(free) + int(kept)

    def total_bytes(self) -> int | None:
        """Give the card's memory."""
        return int(self.module.get_device_properties(self.torch_device).total_memory)

    def last_cache_bytes(self) -> int | None:
        """Give the card's L2 cache, where PyTorch knows it."""
        return getattr(self.module.get_device_properties(self.torch_device), "L2_cache_size", None)

    def oversubscribed(self) -> bool:
        """Say whether the allocator's peak exceeds the card's memory: Windows then pages."""
        total = self.total_bytes()
        return total is not None and self.module.max_memory_reserved(self.torch_device) > total

    def release(self) -> None:
        """Empty the caching allocator and forget its peak."""
        self.module.empty_cache()
        self.module.reset_peak_memory_stats(self.torch_device)

    def default_dtype(self) -> str:
        """Give the dtype the device is good at."""
        return "fp16"

    def dtype_warning(self, dtype: str) -> str | None:
        """Say what a reader should know before believing times in a dtype, or None."""
        return None

    def name(self) -> str:
        """Give the name of the card."""
        return str(self.module.get_device_name(self.torch_device))


ROCM_GAPS = [
    "ROCm tells no cache beyond L2: where a card has one, inputs used in turn may stay in it",
    "the tiles of ROCm's kernels are not known: fused kernels are not calibrated and nothing is predicted of them",
]


class Cuda(Accelerator):
    """An NVIDIA card, or an AMD one under ROCm, which PyTorch addresses by the same name."""

    kind = "cuda"

    @property
    def clocks(self) -> Clocks:
        """What can be asked about this card's clocks."""
        return clocks_of(self.kind, self.index)

    def default_dtype(self) -> str:
        """Give bf16 from compute capability 8.0 on, and fp16 before."""
        return "bf16" if torch.cuda.get_device_capability(self.torch_device) >= (8, 0) else "fp16"

    def dtype_warning(self, dtype: str) -> str | None:
        """Say when bf16 is emulated."""
        native = torch.version.hip or torch.cuda.get_device_capability(self.torch_device) >= (8, 0)
        if dtype == "bf16" and not native:
            return "bf16 is emulated here: it is native from compute capability 8.0 on"
        return None

    def identity(self) -> dict[str, Any]:
        """Give what the card is, its toolkit, its driver and its clocks as far as they are told."""
        properties = torch.cuda.get_device_properties(self.torch_device)
        made: dict[str, Any] = {"multiprocessors": properties.multi_processor_count}
        gaps = [*self.gaps, *self.clocks.gaps]
        if torch.version.hip:
            gaps += ROCM_GAPS
            made |= {"toolkit": f"ROCm {torch.version.hip}", "architecture": properties.gcnArchName}
        else:
            capability = f"{properties.major}.{properties.minor}"
            made |= {"toolkit": f"CUDA {torch.version.cuda}", "compute_capability": capability}
        told = self.clocks.facts()
        if not torch.version.hip and not told.get("driver"):
            told |= {"driver": nvidia_driver()}
        return super().identity() | made | told | {"gaps": gaps}


class Xpu(Accelerator):
    """An Intel GPU."""

    kind = "xpu"
    gaps = (
        "driver, clocks and throttling are not read on XPU",
        "a short call is timed with its launch: it is not replayed from a graph on XPU",
        "XPU is not calibrated, so nothing is predicted for it",
    )

    def dtypes(self) -> tuple[str, ...]:
        """List the dtypes the device computes in: some of Intel's cards have no fp64."""
        able = float64_device(self.torch_device) == self.torch_device
        return tuple(name for name in super().dtypes() if able or name != "fp64")


class Mps(Device):
    """An Apple GPU: timed by the clock around a wait, since its allocator keeps no peak."""

    kind = "mps"
    shortest_block_s = 5e-3
    gaps = (
        "MPS keeps no peak of memory: peak_extra_bytes stays empty, so no point is accepted",
        "no fp64",
        "a block is timed by the processor's clock around a wait for MPS, launching included",
        "the kernel that ran is known by PyTorch's operator alone",
        "clocks and throttling are not read on MPS",
        "MPS is not calibrated, so nothing is predicted for it",
    )

    def synchronise(self) -> None:
        """Wait until everything asked of the device is done."""
        torch.mps.synchronize()

    def peak_extra_bytes(self, call: Call) -> int | None:
        """Give None: the device cannot tell."""
        return None

    def free_bytes(self) -> int | None:
        """Give what the system recommends to take and is not taken yet."""
        return int(torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())

    def release(self) -> None:
        """Empty the allocator's cache."""
        torch.mps.empty_cache()

    def default_dtype(self) -> str:
        """Give the dtype the device is good at."""
        return "fp16"

    def dtypes(self) -> tuple[str, ...]:
        """List the dtypes the device computes in."""
        return ("fp32", "bf16", "fp16")

    def dtype_warning(self, dtype: str) -> str | None:
        """Say what a reader should know before believing times in a dtype, or None."""
        return None


KINDS: dict[str, type[Device]] = {cls.kind: cls for cls in (Device, Cuda, Xpu, Mps)}


def resolve(name: str) -> Device:
    """Find the device a job asks for.

    Args:
        name: "auto" (an accelerator where there is one, else the CPU), "cpu", "cuda", "cuda:1", "mps", "xpu".

    Returns:
        The device.

    Raises:
        ValueError: an unknown name, or a device this PyTorch does not see.
    """
    if name == "auto":
        name = next((kind for kind in ("cuda", "xpu", "mps") if count(kind)), "cpu")
    found = re.fullmatch(r"(cpu|mps|cuda|xpu)(?::(\d+))?", name)
    if not found:
        raise ValueError(f"device must be auto, cpu, cuda, mps or xpu, or a numbered one, got {name!r}")
    kind, index = found[1], int(found[2] or 0)
    if index >= count(kind):
        raise ValueError(f"device is {name!r}, but {missing(kind)}")
    return KINDS[kind](index)


def count(kind: str) -> int:
    """Give how many devices of a kind this PyTorch sees.

    Args:
        kind: "cpu", "cuda", "xpu" or "mps".

    Returns:
        The number; 1 for the CPU.
    """
    if kind == "cpu":
        return 1
    if kind == "mps":
        return int(torch.backends.mps.is_available())
    module = getattr(torch, kind, None)
    return module.device_count() if module is not None and module.is_available() else 0


def missing(kind: str) -> str:
    """Say why a kind of device, or that many of it, is not there."""
    found = count(kind)
    if found:
        return f"this machine has {found} of that kind, counted from 0"
    if kind == "cuda" and torch.version.cuda is None and torch.version.hip is None:
        return f"this PyTorch ({torch.__version__}) is a CPU-only build"
    return f"PyTorch {torch.__version__} sees no {kind} device"


def others(chosen: str) -> dict[str, str]:
    """Say of every kind of device but one whether it is here, and what would stay unseen on it.

    Args:
        chosen: the kind that is described anyway.

    Returns:
        A sentence for each other kind, such as "not here: PyTorch 2.13.0 sees no xpu device".
    """
    said = {}
    for kind, device in KINDS.items():
        if kind == chosen:
            continue
        found = count(kind)
        here = f"{found} here" if found else f"not here: {missing(kind)}"
        unseen = f"; measured with gaps: {'; '.join(device.gaps)}" if device.gaps else ""
        said[f"{kind}_device" if kind != "cpu" else "processor"] = here + unseen
    return said


def nvidia_driver() -> str | None:
    """Give the version of NVIDIA's driver, or None where its tool is not there or does not answer."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.split()[0] if done.stdout.split() else None
