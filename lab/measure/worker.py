"""The measuring child: runs one part of one job, and tells its parent one JSON line at a time.

`python -m lab.measure.worker --part PART` (see PARTS) reads a JobSpec as one JSON line on standard input,
which then stays open: its end means that the parent died, and the child exits at once.
SIGTERM (or Ctrl+C) cancels. Both are seen by threads of their own that never wait for PyTorch, so that a call
of ten seconds delays neither.

Exit codes: 0 finished, 1 crashed or the parent died, 2 refused (a bad job, or no such device), 143 cancelled.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any, TextIO

from lab.measure.competitor import DISTURBED_PARTS

if TYPE_CHECKING:  # whatever loads PyTorch or numpy starts threads: only once signals are blocked, see main
    from lab.measure.events import Events
    from lab.measure.job import Job

PARTS = ("time", "memory", "environment", "cold", "null", *DISTURBED_PARTS.values(), "cross_check")
CANCEL_SIGNALS = ("SIGTERM", "SIGINT")
FINISHED, CRASHED, REFUSED, CANCELLED = 0, 1, 2, 143


def main(arguments: list[str] | None = None) -> int:
    """Run one part of the job on standard input.

    Args:
        arguments: of the command line; None for the process's own.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(prog="python -m lab.measure.worker", description=__doc__)
    parser.add_argument("--part", required=True, choices=PARTS)
    part = parser.parse_args(arguments).part
    # Before anything starts a thread: every thread inherits the block, and only the one that waits is told.
    _block_signals()
    from lab.measure.events import Events

    events = Events(_private_stdout())
    threading.Thread(target=_cancel_on_signal, args=(events,), daemon=True).start()
    line = sys.stdin.buffer.readline()
    if not line:
        return CRASHED
    threading.Thread(target=_exit_at_end_of_input, daemon=True).start()
    try:
        return run_job(json.loads(line), part, events)
    except Exception as error:
        traceback.print_exc()
        said = str(error).strip().splitlines()
        events.end("crashed", f"{type(error).__name__}: {said[0]}" if said else type(error).__name__)
        return CRASHED


def run_job(data: Any, part: str, events: Events) -> int:
    """Open the job and run a part of it.

    Args:
        data: the JobSpec as a dictionary.
        part: one of PARTS.
        events: where everything is told, the end included.

    Returns:
        The exit code: a specification or a device that cannot be is refused.
    """
    from lab.runs import JobSpec

    try:
        spec = JobSpec.from_dict(data)
        events.progress("loading PyTorch")
        from lab.measure.job import open_job

        job = open_job(spec)
    except ValueError as error:
        events.end("refused", str(error))
        return REFUSED
    run_part(job, part, events)
    events.end("finished")
    return FINISHED


def run_part(job: Job, part: str, events: Events) -> None:
    """Run a part of a job.

    Args:
        job: as opened on its device.
        part: one of PARTS; "cold" is a fresh process of the first-call experiment, those of "null" and
            "cross_check" test the clock itself.
        events: where everything is told but the end.
    """
    import torch

    from lab.measure import allocator
    from lab.measure.accelerators import others
    from lab.measure.clock_tests import CLOCK_TESTS
    from lab.measure.environment import environment
    from lab.measure.experiments.registry import EXPERIMENTS

    if part in ("time", "cold", *CLOCK_TESTS) and job.warm_heap:
        allocator.keep_heap()
    if part == "environment":
        events.environment(environment(job) | others(job.device.kind))
        return
    events.environment(environment(job))
    with torch.inference_mode():
        if job.device.kind == "cpu" and part != "cold":  # there, starting threads is part of what is timed
            _start_threads()
            allocator.limit_memory(job.device.free_bytes())
        if part in CLOCK_TESTS:
            CLOCK_TESTS[part](job, events)
        else:
            EXPERIMENTS[job.spec.experiment].run(job, part, events)


def _start_threads() -> None:
    """Make PyTorch start its threads: a limit on memory set before that would kill the process."""
    import torch

    a = torch.ones(512, 512)
    (a @ a).exp_()


def _private_stdout() -> TextIO:
    """Keep standard output for events: whatever else is printed in this process goes to standard error."""
    private = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return private


def _block_signals() -> None:
    if hasattr(signal, "pthread_sigmask"):  # not on Windows, where a parent ends a child without asking
        signal.pthread_sigmask(signal.SIG_BLOCK, [getattr(signal, name) for name in CANCEL_SIGNALS])


def _cancel_on_signal(events: Events) -> None:
    """Wait for a signal to stop, say so, and exit without waiting for PyTorch."""
    if not hasattr(signal, "sigwait"):
        return
    signal.sigwait([getattr(signal, name) for name in CANCEL_SIGNALS])
    events.end("cancelled")
    os._exit(CANCELLED)


def _exit_at_end_of_input() -> None:
    """Exit as soon as the parent is gone: the system then closes its end of our standard input."""
    while os.read(0, 4096):
        pass
    os._exit(CRASHED)


if __name__ == "__main__":
    # Skips the slow tear-down of threads and libraries: all that matters is flushed.
    os._exit(main())
