"""The clocks of a card: what its driver says of them, and the gate that throws away throttled blocks.

NVIDIA's driver is asked through NVML where its Python package is installed, AMD's through PyTorch's own wrapper
of amdsmi. Neither has to be there: what cannot be read is a gap in words, and the gate then sees nothing.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch

from lab.measure.gate import Gate

SLOW_SHARE = 0.75  # of the highest SM clock seen in this process

SETTINGS = 0x001 | 0x002 | 0x100
"""Reasons that are settings or rest, and no throttling: idle, application clocks, display clocks."""
THROTTLING = {
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "heat, by the driver",
    0x040: "heat, by the hardware",
    0x080: "power brake",
    0x200: "board limit",
    0x400: "reliability limit",
}
"""Words for NVML's bits. Source: nvml.h, group nvmlClocksEventReasons (the last two: nvidia-ml-py 13.615)."""

NO_NVML = "clocks and throttling are not read: the Python package nvidia-ml-py is not installed"
NOT_FOUND = "clocks and throttling are not read: NVML does not know this card ({said})"
NO_AMDSMI = "clocks are not read: ROCm's Python package amdsmi is not installed"
CLOCK_ALONE = "why ROCm lowers the clock is not read: the clock alone is watched"


class Clocks:
    """What is known of a device's clocks; this base knows nothing and says why."""

    def __init__(self, *gaps: str) -> None:
        """Start with what cannot be read, in words."""
        self.gaps = gaps
        self.best_mhz = 0

    def sm_mhz(self) -> int | None:
        """Give the clock of the multiprocessors now, in MHz, or None where it is not told."""
        return None

    def throttled(self) -> tuple[str, ...]:
        """List why the clock is held down at this moment, in words."""
        return ()

    def slow(self) -> bool:
        """Say whether the clock is clearly below the highest seen in this process."""
        now_mhz = self.sm_mhz()
        if not now_mhz:
            return False
        self.best_mhz = max(self.best_mhz, now_mhz)
        return now_mhz < SLOW_SHARE * self.best_mhz

    def facts(self) -> dict[str, Any]:
        """Give what belongs into the record of a run, as JSON values."""
        return {}


class NvmlClocks(Clocks):
    """An NVIDIA card, asked through NVML."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        """Ask about one card.

        Args:
            nvml: the module pynvml, initialised.
            handle: of the card.
        """
        super().__init__()
        self._nvml = nvml
        self._handle = handle

    def _ask(self, function: str, *arguments: Any) -> Any:
        """Call a function of NVML; None where this driver or card does not answer it."""
        try:
            return getattr(self._nvml, function)(*arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None

    def sm_mhz(self) -> int | None:
        """Give the clock of the multiprocessors now."""
        found = self._ask("nvmlDeviceGetClockInfo", self._handle, self._nvml.NVML_CLOCK_SM)
        return None if found is None else int(found)

    def throttled(self) -> tuple[str, ...]:
        """List why the clock is held down; settings and idling are no such reasons."""
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons", self._handle)
        if bits is None:  # the name of older releases
            bits = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", self._handle) or 0
        known = [words for bit, words in THROTTLING.items() if bits & bit]
        unknown = bits & ~SETTINGS & ~functools.reduce(int.__or__, THROTTLING)
        return (*known, f"NVML's reason {unknown:#x}") if unknown else tuple(known)

    def facts(self) -> dict[str, Any]:
        """Give the driver, the clocks, what holds them down, the power limit and the temperature."""
        power_mw = self._ask("nvmlDeviceGetEnforcedPowerLimit", self._handle)
        driver = self._ask("nvmlSystemGetDriverVersion")
        return {
            "driver": driver.decode() if isinstance(driver, bytes) else driver,
            "sm_clock_mhz": self.sm_mhz(),
            "sm_clock_limit_mhz": self._ask(
                "nvmlDeviceGetMaxClockInfo", self._handle, self._nvml.NVML_CLOCK_SM
            ),
            "power_limit_w": None if power_mw is None else power_mw / 1000,
            "temperature_c": self._ask(
                "nvmlDeviceGetTemperature", self._handle, self._nvml.NVML_TEMPERATURE_GPU
            ),
            "throttled": list(self.throttled()),
        }


class RocmClocks(Clocks):
    """An AMD card, asked through PyTorch, which asks amdsmi."""

    def __init__(self, index: int) -> None:
        """Ask about the card with that index."""
        super().__init__(CLOCK_ALONE)
        self._index = index

    def sm_mhz(self) -> int | None:
        """Give the clock of the compute units now; PyTorch's 0 stands for one that is not told."""
        return _or_none(lambda: int(torch.cuda.clock_rate(self._index))) or None

    def facts(self) -> dict[str, Any]:
        """Give the clock and the temperature."""
        temperature = _or_none(lambda: int(torch.cuda.temperature(self._index)))
        return {"sm_clock_mhz": self.sm_mhz(), "temperature_c": temperature}


def _or_none(ask: Callable[[], int]) -> int | None:
    """Ask amdsmi through PyTorch; None where the card or the driver has no answer."""
    try:
        return ask()
    except Exception:  # amdsmi's own errors derive from Exception and cannot be named without it
        return None


@functools.cache
def clocks_of(kind: str, index: int) -> Clocks:
    """Find what can be asked about a device's clocks.

    Args:
        kind: "cpu", "cuda", "xpu" or "mps".
        index: among the devices of that kind that PyTorch sees.

    Returns:
        Something to ask; the same each time, so that the highest clock seen is that of the process.
    """
    if kind != "cuda":
        return Clocks()
    if torch.version.hip:
        try:
            torch.cuda.clock_rate(index)
        except ModuleNotFoundError:
            return Clocks(NO_AMDSMI)
        except Exception:
            return Clocks(CLOCK_ALONE)
        return RocmClocks(index)
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return Clocks(NO_NVML)
    try:
        nvml.nvmlInit()
        return NvmlClocks(nvml, _handle(nvml, index))
    except (nvml.NVMLError, AttributeError) as error:
        return Clocks(NOT_FOUND.format(said=error))


def _handle(nvml: Any, index: int) -> Any:
    """Find a card in NVML by its UUID: NVML counts cards that CUDA_VISIBLE_DEVICES hides from PyTorch."""
    uuid = str(torch.cuda.get_device_properties(index).uuid)
    try:
        return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except nvml.NVMLError:  # a slice of a card has a UUID of its own; the clocks are the whole card's
        part = nvml.nvmlDeviceGetHandleByUUID(f"MIG-{uuid}")
        return nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part)


class ThrottleGate(Gate):
    """The gate of a card: a block is not clean when its clock was held down or clearly lower than before."""

    def __init__(self, clocks: Clocks) -> None:
        """Watch these clocks."""
        self._clocks = clocks

    def busy(self, variant: str) -> bool:
        """Say whether the clock is throttled at the end of the block, and keep why."""
        reasons, slow = self._clocks.throttled(), self._clocks.slow()
        if reasons:
            self.cause = f"the clock was throttled ({', '.join(reasons)})"
        elif slow:
            self.cause = f"the clock was under {SLOW_SHARE:.0%} of the run's best"
        return bool(reasons) or slow

    def describe(self) -> str:
        """Say in words what is watched."""
        watched = f"a clock under {SLOW_SHARE:.0%} of the run's best"
        if self._clocks.gaps:
            return watched
        return f"{watched}, and throttling for power, heat or protection, both read after each block"


def throttle_gate(kind: str) -> Gate:
    """Choose the gate of the accelerator that this process has activated.

    Args:
        kind: "cuda", "xpu" or "mps".

    Returns:
        A gate that watches the clocks, or one that sees nothing where they cannot be read.
    """
    if kind != "cuda" or not torch.cuda.is_available():
        return Gate()
    clocks = clocks_of(kind, torch.cuda.current_device())
    return Gate() if clocks.sm_mhz() is None and not clocks.facts() else ThrottleGate(clocks)
