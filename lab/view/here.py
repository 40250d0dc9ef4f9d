"""This machine, as far as the pages need it: what measures, with how many threads, in which number type.

What the operating system says is known at once; a graphics card is described by a child process
(`jobs.machine()`), which takes seconds: until it has answered, the pages assume a CPU. Nothing here waits.
"""

from __future__ import annotations

from typing import Any

from lab.measure import host, jobs
from lab.runs import Run

# Flags of processors that multiply fp16 matrices natively; the others emulate it, far slower than fp32.
_FAST_FP16 = frozenset({"avx512_fp16", "amx_fp16", "asimdhp"})
ON_A_CARD = "on a CUDA card"


def environment(device: str) -> dict[str, Any] | None:
    """What a child process found out about a device; None until known, or where it is not the one asked for.

    Args:
        device: "auto", "cpu", "cuda", "mps" or "xpu".
    """
    known = jobs.machine()
    return known if known and (device == "auto" or known.get("device_kind") == device) else None


def kind(device: str) -> str:
    """The kind of device a measurement would run on.

    Args:
        device: "auto", "cpu", "cuda", "mps" or "xpu".

    Returns:
        "cpu", "cuda", "mps" or "xpu".
    """
    if device != "auto":
        return device
    known = environment(device)
    return str(known["device_kind"]) if known else "cpu"


def cost_device(device: str) -> str:
    """The name under which lab.cost knows a device: on a CPU other kernels run than on a card."""
    return "cpu" if kind(device) == "cpu" else "cuda"


def threads(run: Run | None = None) -> int:
    """CPU threads: those a run was measured with, else those the app's buttons use (one core is left to it).

    Args:
        run: measured here; None for none.
    """
    known = run.environment.get("threads") if run else None
    return known if isinstance(known, int) else max(1, host.cores() - 1)


def computed_by(device: str, threads: int) -> str:
    """What a predicted peak is of: on a CPU every thread holds a tile of its own, on a card none does.

    Args:
        device: "cpu" or "cuda", as lab.cost calls it.
        threads: CPU threads.
    """
    if device != "cpu":
        return ON_A_CARD
    return f"on a CPU with {threads} thread" + ("" if threads == 1 else "s")


def memory(device: str) -> tuple[int, str] | None:
    """The memory of the device and what to call it.

    Args:
        device: "auto", "cpu", "cuda", "mps" or "xpu".

    Returns:
        Bytes and words; None while unknown.
    """
    if kind(device) == "cpu":
        total = host.memory_bytes()
        return None if total is None else (total, "this machine's memory")
    known = environment(device)
    total = known.get("memory_bytes") if known else None
    return None if total is None else (int(total), "this card's memory")


def measured_type(dtype: str, device: str) -> tuple[str, str | None]:
    """The number type to measure in, and why it is not the scenario's.

    Args:
        dtype: the scenario's.
        device: "auto", "cpu", "cuda", "mps" or "xpu".

    Returns:
        A dtype of the same width, and a sentence or None.
    """
    if dtype != "fp16" or kind(device) != "cpu" or host.cpu_flags() & _FAST_FP16:
        return dtype, None
    reason = "This CPU only emulates fp16, so the button measures bf16: as many bytes, faster arithmetic."
    return "bf16", reason
