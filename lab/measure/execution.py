"""One job from start to end: its children in turn, their points merged, the run saved as it grows.

The command line and the app's queue both call `execute`. Time is measured first, smallest context first, and
memory in a child of its own afterwards, so that nothing disturbs a timing. No torch here.
"""

from __future__ import annotations

import contextlib
import importlib.util
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from filelock import FileLock, Timeout

from lab.measure.child import WORKER, Child
from lab.measure.plan import processes_of, repeatable
from lab.runs import RUN_STATUSES, JobSpec, Point, Run, lock_file, new_run, save, utc_now
from lab.runs.checks import printable
from lab.runs.joining import with_repeat

POLL_S = 0.2
LONGEST_MESSAGE = 2000

CANCELLED = "The points finished until then are kept."

NO_TORCH = (
    "PyTorch is not installed, and measuring needs it: choose the build for this machine at "
    "https://pytorch.org/get-started/locally/"
)

Event = dict[str, Any]
Ending = tuple[str, str | None]  # a status of a run, and why
Listener = Callable[[Event, Run], None]


class Execution:
    """A job being executed: the run so far, and the means to end it early."""

    def __init__(
        self, spec: JobSpec, listener: Listener | None = None, command: Sequence[str] = WORKER
    ) -> None:
        """Prepare a job.

        Args:
            spec: what to measure.
            listener: called with each event and the run after it, in the executing thread.
            command: the worker to start.
        """
        self.run = new_run(spec)
        self._listener = listener
        self._command = command
        self._cancelled = threading.Event()
        self._child: Child | None = None
        self._done = 0
        self._total = 0
        self._part = 0
        self._repeat = 1
        self._what = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """The children this job starts, in order."""
        return processes_of(self.run.spec)

    @property
    def worker_pid(self) -> int | None:
        """The process id of the child measuring now."""
        child = self._child
        return child.pid if child is not None else None

    def cancel(self) -> None:
        """End the job early; the points that are finished stay."""
        self._cancelled.set()
        child = self._child
        if child is not None:
            child.stop()

    def execute(self) -> Run:
        """Run all parts.

        Returns:
            The run as it ended, whatever ended it; it is in the data folder unless a warning says otherwise.
        """
        with machine_turn(self._cancelled, self._wait_for_turn):
            self.run = replace(self.run, created_utc=utc_now())  # the time in the queue is not the run's
            try:
                status, message = self._all_parts()
            except BaseException:  # the listener's, such as a closed pipe, or Ctrl-C: the points stay
                self._end("cancelled", "The program that showed this measurement ended.")
                raise
            self._end(status, message)
        self._tell({"event": "end", "status": self.run.status, "message": self.run.message})
        return self.run

    def _end(self, status: str, message: str | None) -> None:
        if self._cancelled.is_set():
            status, message = "cancelled", CANCELLED
        elif status not in RUN_STATUSES:
            status, message = "crashed", f"The measuring process ended as {status!r}, which is not known."
        self.run = self.run.ended(status, message)
        self._save()

    def _all_parts(self) -> Ending:
        if self._command == WORKER and importlib.util.find_spec("torch") is None:
            return "refused", NO_TORCH
        ending: Ending = ("finished", None)
        spec = self.run.spec
        if spec.repeats > 1 and not repeatable(spec.experiment):
            said = f"repeats is {spec.repeats}, but {spec.experiment} times no cells: one process did it all."
            self.run = self.run.with_warning(said)
        for number, part in enumerate(self.parts):
            self._part = number
            self._repeat = self.parts[: number + 1].count(part)
            if self._cancelled.is_set() or ending[0] != "finished":
                break
            ending = self._one_part(part)
        return ending

    def _one_part(self, part: str) -> Ending:
        try:
            child = self._child = Child(self.run.spec, part, self._command)
        except OSError as error:
            return "crashed", f"The measuring process could not be started: {error.strerror or error}."
        if self._cancelled.is_set():
            child.stop()
        said: Ending | None = None
        try:
            for event in child.events():
                if event["event"] == "end":
                    said = (str(event.get("status")), _text(event.get("message")))
                else:
                    self._take(event)
        except BaseException:
            child.stop()
            raise
        finally:
            code = child.close()
            self._child = None
        return self._judge(said, child.ending(code))

    def _judge(self, said: Ending | None, found: tuple[str, str] | None) -> Ending:
        """Choose between what a child said of its end and how it was seen to end."""
        if said is not None and said[0] == "cancelled" and not self._cancelled.is_set():
            return "crashed", f"The measuring process was asked to end from outside{self._where()}."
        if said is not None:
            return said
        status, message = found or ("crashed", "The measuring process ended without a word.")
        return status, message.removesuffix(".") + f"{self._where()}."

    def _where(self) -> str:
        return f" (at: {self._what})" if self._what else ""

    def _take(self, event: Event) -> None:
        """Fold one event of a child into the run; what a newer or broken worker says wrongly is a warning."""
        kind = event["event"]
        try:
            if kind == "plan":
                self._total = int(event["total"])
            elif kind == "progress":
                self._done = int(event["done"])
                self._total = int(event["total"])
                self._what = str(event["what"])
            elif kind == "environment":
                self.run = replace(self.run, environment=self.run.environment | event["environment"])
            elif kind == "ceilings":
                self.run = replace(self.run, ceilings=event["ceilings"])
            elif kind == "warning":
                self.run = self.run.with_warning(str(event["text"]))
            elif kind == "point":
                self._add(Point.from_dict(event["point"]))
                self._save()
        except (KeyError, TypeError, ValueError) as error:
            self.run = self.run.with_warning(f"An event of the measuring process was not understood: {error}")
        self._tell(self._overall(event))

    def _add(self, point: Point) -> None:
        """Add a point; of a cell that an earlier process timed, the samples are joined."""
        if self._repeat == 1:
            self.run = self.run.with_point(point)
        else:
            self.run = with_repeat(self.run, point, self._repeat)

    def _overall(self, event: Event) -> Event:
        """Progress over all parts instead of within one."""
        if event["event"] not in ("progress", "plan"):
            return event
        total = self._total * len(self.parts)
        overall = event | {"done": self._total * self._part + self._done, "total": total}
        often = self.parts.count(self.parts[self._part])
        if often > 1 and "what" in event:
            overall["what"] = f"process {self._repeat} of {often}: {event['what']}"
        return overall

    def _save(self) -> None:
        try:
            save(self.run)
        except OSError as error:
            self.run = self.run.with_warning(
                f"This run could not be saved ({error.strerror or error}): it lasts until the program ends."
            )

    def _wait_for_turn(self) -> None:
        what = "waiting for another measurement on this machine to end"
        self._tell({"event": "progress", "done": 0, "total": 0, "what": what})

    def _tell(self, event: Event) -> None:
        if self._listener is not None:
            self._listener(event, self.run)


def _text(value: object) -> str | None:
    return None if value is None else printable(str(value))[:LONGEST_MESSAGE]


@contextlib.contextmanager
def machine_turn(cancelled: threading.Event, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold this machine for one job among all processes of this user, app or command line.

    One turn for all devices: a job on the processor would disturb the launches of one on a card.

    Args:
        cancelled: set by whoever gives up waiting.
        waiting: called once when another process is measuring.
    """
    lock = _lock()
    told = False
    while lock is not None and not cancelled.is_set():
        try:
            lock.acquire(timeout=POLL_S)
            break
        except Timeout:
            if not told:
                waiting()
            told = True
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _lock() -> FileLock | None:
    """The lock in the data folder; None where it cannot be written (the run will say so when it is saved)."""
    path = lock_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError:
        return None
    return FileLock(path)


def execute(spec: JobSpec, on_event: Listener | None = None, command: Sequence[str] = WORKER) -> Run:
    """Run one job in the foreground.

    Args:
        spec: what to measure.
        on_event: called with each event and the run after it.
        command: the worker to start.

    Returns:
        The run as it ended.
    """
    return Execution(spec, on_event, command).execute()
