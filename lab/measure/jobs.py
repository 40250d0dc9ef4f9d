"""The server's queue of measuring jobs: first come, first served, one at a time on this machine.

One `Jobs` belongs to a server process (the app keeps it in a cached resource). A thread of its own executes
the jobs; each job measures in child processes, so this process stays responsive and imports no torch.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.measure.child import WORKER
from lab.measure.estimate import Estimate, estimate
from lab.measure.execution import Event, Execution
from lab.measure.machine import machine
from lab.runs import JobSpec, Run

__all__ = ["Estimate", "JobView", "Jobs", "estimate", "machine"]

MAX_WAITING = 50
MAX_ENDED = 200  # whose views are kept; their runs are in the data folder


@dataclass(frozen=True)
class JobView:
    """A job as it stood at one moment.

    Args:
        id: of the job.
        spec: what is measured.
        state: "queued", "running", or how it ended: "finished", "cancelled", "crashed", "out_of_memory",
            "refused".
        place: 1 for the next one to start; 0 once it has started.
        done, total: steps of the work; total is 0 until the plan is known.
        what: what is being measured now, in words.
        run: the run so far; None while queued.
        message: why it ended as it did.
        seconds_running: since it started; of the whole job once it has ended.
        worker_pid: the process measuring now.
    """

    id: str
    spec: JobSpec
    state: str
    place: int
    done: int
    total: int
    what: str
    run: Run | None
    message: str | None
    seconds_running: float
    worker_pid: int | None


@dataclass
class _Job:
    id: str
    execution: Execution
    state: str = "queued"
    done: int = 0
    total: int = 0
    what: str = ""
    message: str | None = None
    run: Run | None = None
    started_s: float | None = None
    ended_s: float | None = None
    spec: JobSpec = field(init=False)

    def __post_init__(self) -> None:
        self.spec = self.execution.run.spec


class Jobs:
    """The queue. Every method may be called from any thread."""

    def __init__(self, command: Sequence[str] = WORKER) -> None:
        """Start the queue's thread.

        Args:
            command: the worker that jobs start.
        """
        self._command = tuple(command)
        self._lock = threading.Condition()
        self._jobs: dict[str, _Job] = {}
        self._numbers = itertools.count(1)
        threading.Thread(target=self._work, daemon=True, name="measuring jobs").start()

    def submit(self, spec: JobSpec) -> str:
        """Put a job at the end of the queue.

        Args:
            spec: what to measure.

        Returns:
            The job's identifier.

        Raises:
            ValueError: too many jobs wait already.
        """
        with self._lock:
            if len(self._waiting()) >= MAX_WAITING:
                raise ValueError(
                    f"{MAX_WAITING} measurements are waiting already; try again when some have ended"
                )
            job_id = f"job-{next(self._numbers)}"

            def listener(event: Event, run: Run) -> None:
                self._listen(job_id, event, run)

            self._forget_oldest()
            self._jobs[job_id] = _Job(job_id, Execution(spec, listener, self._command))
            self._lock.notify_all()
            return job_id

    def view(self, job_id: str) -> JobView:
        """Return a job as it stands now.

        Raises:
            KeyError: no such job on this server.
        """
        with self._lock:
            return self._view(self._jobs[job_id])

    def views(self) -> tuple[JobView, ...]:
        """Return all jobs of this server, in the order they came."""
        with self._lock:
            return tuple(self._view(job) for job in self._jobs.values())

    def cancel(self, job_id: str) -> None:
        """End a job; what it has finished stays. A job that has ended stays as it is.

        Raises:
            KeyError: no such job on this server.
        """
        with self._lock:
            job = self._jobs[job_id]
            if job.state == "queued":
                job.state = "cancelled"
            running = job.state == "running"
        if running:
            job.execution.cancel()

    def _forget_oldest(self) -> None:
        ended = [job.id for job in self._jobs.values() if job.state not in ("queued", "running")]
        for job_id in ended[: max(0, len(ended) - MAX_ENDED)]:
            del self._jobs[job_id]

    def _waiting(self) -> list[_Job]:
        return [job for job in self._jobs.values() if job.state == "queued"]

    def _view(self, job: _Job) -> JobView:
        waiting = self._waiting()
        seconds = 0.0
        if job.started_s is not None:
            seconds = (job.ended_s or time.monotonic()) - job.started_s
        return JobView(
            id=job.id,
            spec=job.spec,
            state=job.state,
            place=waiting.index(job) + 1 if job in waiting else 0,
            done=job.done,
            total=job.total,
            what=job.what,
            run=job.run,
            message=job.message,
            seconds_running=seconds,
            worker_pid=job.execution.worker_pid,
        )

    def _listen(self, job_id: str, event: Event, run: Run) -> None:
        with self._lock:
            job = self._jobs[job_id]
            job.run = run
            job.done = event.get("done", job.done)
            job.total = event.get("total", job.total)
            job.what = str(event.get("what", job.what))

    def _next(self) -> _Job:
        with self._lock:
            while not self._waiting():
                self._lock.wait()
            job = self._waiting()[0]
            job.state, job.started_s = "running", time.monotonic()
            return job

    def _work(self) -> None:
        while True:
            job = self._next()
            try:
                run = job.execution.execute()
                status, message = run.status, run.message
            except Exception as error:  # the queue must outlive any one job
                run, status, message = job.execution.run, "crashed", f"The job could not be run: {error}"
            with self._lock:
                job.run, job.state, job.message, job.ended_s = run, status, message, time.monotonic()
