"""A double of the module pynvml: one card whose clock and reasons a test sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class NVMLError(Exception):
    """What NVML raises."""


class Nvml:
    """Stands for the module.

    Args:
        mhz: clocks of the multiprocessors, one for each time it is asked; the last one stays.
        reasons: bits of what holds the clock down, in the same way.
        name: the UUID that the card answers to.
    """

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0

    def __init__(
        self, mhz: Iterable[int] = (1900,), reasons: Iterable[int] = (0,), name: str = "GPU-0123"
    ) -> None:
        self._mhz, self._reasons, self._name = stays(mhz), stays(reasons), name

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetHandleByUUID(self, name: str) -> str:
        if name != self._name:
            raise NVMLError("Not Found")
        return name

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: str) -> str:
        return handle.replace("MIG", "GPU")

    def nvmlDeviceGetClockInfo(self, handle: str, clock: int) -> int:
        assert (handle[:3], clock) == ("GPU", self.NVML_CLOCK_SM)
        return next(self._mhz)

    def nvmlDeviceGetMaxClockInfo(self, handle: str, clock: int) -> int:
        return 2100

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:
        return next(self._reasons)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: str) -> int:
        return 165_000

    def nvmlSystemGetDriverVersion(self) -> str:
        return "555.1"


def stays(values: Iterable[int]) -> Iterator[int]:
    """Give the values, then the last one for ever."""
    last = 0
    for last in values:
        yield last
    while True:
        yield last
