"""Processes that compete for the processors on purpose, to see what the clock makes of them. No torch."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from types import TracebackType

from lab.measure import host

START_S = 0.5
STEADY, BURSTS = "steady", "in bursts"
DISTURBED_PARTS = {STEADY: "null_steady", BURSTS: "null_bursts"}
"""The parts of the measuring child that time beside them."""
# Who has lost its parent ends: a killed test leaves nothing behind that computes for ever.
_FOREVER = "import os, random, time\nparent = os.getppid()\nwhile os.getppid() == parent:\n"
PROGRAMS = {
    STEADY: _FOREVER + "    for _ in range(10**6): pass\n",
    # A burst is longer than a block, and so is the rest: some blocks are hit, others are clean
    BURSTS: (
        _FOREVER + "    end = time.perf_counter() + random.uniform(0.02, 0.08)\n"
        "    while time.perf_counter() < end: pass\n"
        "    time.sleep(random.uniform(0.05, 0.15))\n"
    ),
}


class Competitor:
    """Busy processes, as many as this machine has processors, for the time of a `with` block."""

    def __init__(self, kind: str, count: int | None = None) -> None:
        """Prepare them.

        Args:
            kind: STEADY or BURSTS.
            count: how many; None for one for each processor.
        """
        self._program = PROGRAMS[kind]
        self._count = host.cores() if count is None else count
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Competitor:
        """Start them, and give them time to be busy."""
        command = (sys.executable, "-c", self._program)
        try:
            for _ in range(self._count):
                self._processes.append(subprocess.Popen(command))
            time.sleep(START_S)
        except BaseException:  # Ctrl-C too: without it nobody would end them
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End them."""
        self._end()

    def _end(self) -> None:
        for process in self._processes:
            with suppress(OSError):
                process.kill()
            process.wait()
