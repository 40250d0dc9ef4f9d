"""Gates: whether the machine was busy with something else while a block was timed.

On the CPU a block is clean when nobody had to wait for a processor (the pressure Linux counts rose by at most
5 % of the block's time), or when this process got all the processors it asked for: at most that much of one
thread's time is missing, since the others wait for the slowest at every barrier. Where pressure is not
counted, a block that got clearly less processor time than the best of its kind is not clean.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

PRESSURE = Path("/proc/pressure/cpu")
WAITING_SHARE = 0.05  # of the block's time, somebody waiting
FALLBACK_SHARE = 0.9  # of the best block of the same variant


class Gate:
    """A gate that sees nothing: every block is clean. `describe` says so in the record."""

    cause = "the machine was busy"
    """Why the last block was not clean, in words."""

    def start(self) -> None:
        """Begin to watch."""

    def busy(self, variant: str) -> bool:
        """Say whether the machine was busy since `start`.

        Args:
            variant: what was timed, for gates that compare blocks of a kind.
        """
        return False

    def describe(self) -> str:
        """Say in words what is watched."""
        return "not gated: clocks and throttling are not read"


class PressureGate(Gate):
    """The gate of the CPU on Linux: time during which any task waited for a processor."""

    def __init__(self, threads: int) -> None:
        """Watch for a process that computes with so many threads."""
        self.threads = threads
        self._start = (0.0, 0.0, 0)

    def start(self) -> None:
        """Begin to watch."""
        self._start = (time.perf_counter(), time.process_time(), waiting_us())

    def busy(self, variant: str) -> bool:
        """Say whether somebody waited for a processor and this process got less than all it asked for."""
        wall, computing, waiting = self._start
        elapsed = time.perf_counter() - wall
        if (waiting_us() - waiting) * 1e-6 <= WAITING_SHARE * elapsed:
            return False
        missing = self.threads * elapsed - (time.process_time() - computing)
        return missing > WAITING_SHARE * elapsed

    def describe(self) -> str:
        """Say in words what is watched."""
        share = f"{WAITING_SHARE:.0%}"
        return (
            f"CPU pressure (PSI) over {share} of a block's time, with over {share} of a thread's time missing"
        )


class ComputingGate(Gate):
    """The gate of the CPU where pressure is not counted: processor time against the best of its kind."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self._best: dict[str, float] = {}
        self._start = (0.0, 0.0)

    def start(self) -> None:
        """Begin to watch."""
        self._start = (time.perf_counter(), time.process_time())

    def busy(self, variant: str) -> bool:
        """Say whether this block got clearly less processor time than the best of its variant."""
        wall, computing = self._start
        share = (time.process_time() - computing) / (time.perf_counter() - wall)
        self._best[variant] = max(share, self._best.get(variant, 0.0))
        return share < FALLBACK_SHARE * self._best[variant]

    def describe(self) -> str:
        """Say in words what is watched."""
        return "processor time of a block under 90 % of the best block of its kind"


def waiting_us() -> int:
    """Read how long some task has waited for a processor since the machine started.

    Returns:
        Microseconds.

    Raises:
        OSError: the system does not count it.
    """
    return int(PRESSURE.read_text(encoding="ascii").split("total=", 1)[1].split()[0])


def gate_for(device_kind: str, threads: int) -> Gate:
    """Choose the gate of a device on this system.

    Args:
        device_kind: "cpu", "cuda", "xpu" or "mps".
        threads: CPU threads that compute.

    Returns:
        A gate.
    """
    if device_kind != "cpu":
        from lab.measure.clocks import throttle_gate  # loads PyTorch, which the CPU's gates do without

        return throttle_gate(device_kind)
    try:
        waiting_us()
    except OSError:
        # Windows counts processor time in steps longer than a block
        return ComputingGate() if os.name == "posix" else Gate()
    return PressureGate(threads)
