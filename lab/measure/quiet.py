"""Waiting for a quiet machine before a measurement that others would spoil: up to a stated patience.

A gate tells afterwards that a block was disturbed; this looks before. It reads how long the processors were
idle (Linux); elsewhere it does not wait.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

STAT = Path("/proc/stat")
BUSY_CORES = 0.10  # processors' worth of work by others that counts as quiet
WINDOW_S = 1.0
WINDOWS = 2
SHORTEST_STRETCH_S = 0.2  # the system counts in steps of a hundredth


class Quiet:
    """Waits for a quiet machine, as long as its patience lasts.

    Args:
        patience_s: seconds that may be spent waiting, over all waits.
        tell: called with a few words when a wait begins.
    """

    def __init__(self, patience_s: float, tell: Callable[[str], None] = lambda what: None) -> None:  # noqa: D107
        self.left_s, self._tell = patience_s, tell

    def wait(self) -> bool:
        """Wait until nobody else computes.

        Returns:
            Whether the machine was quiet, as far as this system tells.
        """
        quiet = 0
        while quiet < WINDOWS:
            busy = busy_cores(WINDOW_S)
            if busy is None:
                return True
            quiet = quiet + 1 if busy <= BUSY_CORES else 0
            if quiet:
                continue
            if self.left_s <= 0:
                return False
            self._tell(f"waiting for a quiet machine: others use {busy:.1f} processors")
            self.left_s -= WINDOW_S
        return True


class Meanwhile:
    """Counts what other processes compute while this one does, over a stretch of time (Linux).

    A gate sees whether this process had to wait for a processor. Where it leaves some free, others can compute
    without making it wait, and still share caches and memory with it.
    """

    def __init__(self) -> None:
        """Begin to count."""
        self._start = _ticks(), time.process_time()

    def others(self) -> float | None:
        """Give the processors' worth of work by others so far, a hypervisor's other guests included.

        Returns:
            Processors, or None where the system does not tell, or too little time has passed to tell.
        """
        before, computing_s = self._start
        after = _ticks()
        if before is None or after is None:
            return None
        own_s = time.process_time() - computing_s
        all_ticks, idle_ticks = after[0] - before[0], after[1] - before[1]
        stretch_s = all_ticks / after[2] / os.sysconf("SC_CLK_TCK")
        if stretch_s < SHORTEST_STRETCH_S:
            return None
        return max(0.0, (all_ticks - idle_ticks) / all_ticks * after[2] - own_s / stretch_s)


def busy_cores(window_s: float) -> float | None:
    """Measure how many processors work while this process sleeps.

    Args:
        window_s: seconds to look.

    Returns:
        Processors' worth of work, or None where the system does not tell.
    """
    before = _ticks()
    if before is None:
        return None
    time.sleep(window_s)
    after = _ticks()
    if after is None:
        return None
    total, idle = after[0] - before[0], after[1] - before[1]
    return 0.0 if total <= 0 else (total - idle) / total * before[2]


def _ticks() -> tuple[int, int, int] | None:
    """Read all ticks, idle ticks and the number of processors since the machine started."""
    try:
        lines = STAT.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    cores = sum(line.startswith("cpu") for line in lines) - 1
    values = [int(value) for value in lines[0].split()[1:9]]
    return sum(values), values[3] + values[4], max(1, cores)
