"""One job from start to end: its children in turn, their points merged, the run saved as it grows.

The command line and the app's queue both call `execute`. Time is measured first, smallest context first, and
memory in a child of its own afterwards, so that nothing disturbs a timing. No torch here.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from filelock import FileLock, Timeout

from lab.measure.child import WORKER, Child
from lab.runs import JobSpec, Point, Run, data_folder, new_run, save

PARTS = {"memory": ("memory",)}
"""The parts of an experiment, in order; what is not named has both."""
BOTH_PARTS = ("time", "memory")
POLL_S = 0.2

Event = dict[str, Any]
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

    @property
    def parts(self) -> tuple[str, ...]:
        """The children this job starts, in order."""
        return PARTS.get(self.run.spec.experiment, BOTH_PARTS)

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
        try:
            with machine_turn(self._cancelled, self._wait_for_turn):
                status, message = self._all_parts()
        except OSError as error:
            status, message = "crashed", f"The measuring process could not be started: {error.strerror}."
        if self._cancelled.is_set():
            status, message = "cancelled", None
        self.run = self.run.ended(status, message)
        self._save()
        self._tell({"event": "end", "status": status, "message": message})
        return self.run

    def _all_parts(self) -> tuple[str, str | None]:
        ending: tuple[str, str | None] = ("finished", None)
        for number, part in enumerate(self.parts):
            self._part = number
            if self._cancelled.is_set() or ending[0] != "finished":
                break
            ending = self._one_part(part)
        return ending

    def _one_part(self, part: str) -> tuple[str, str | None]:
        child = self._child = Child(self.run.spec, part, self._command)
        if self._cancelled.is_set():
            child.stop()
        said: tuple[str, str | None] | None = None
        try:
            for event in child.events():
                if event["event"] == "end":
                    said = (str(event.get("status")), event.get("message"))
                else:
                    self._take(event)
        finally:
            code = child.close()
            self._child = None
        return said or child.ending(code) or ("crashed", "The measuring process ended without a word.")

    def _take(self, event: Event) -> None:
        """Fold one event of a child into the run; what a newer or broken worker says wrongly is a warning."""
        kind = event["event"]
        try:
            if kind == "plan":
                self._total = int(event["total"])
            elif kind == "progress":
                self._done = int(event["done"])
                self._total = int(event["total"])
            elif kind == "environment":
                self.run = replace(self.run, environment=self.run.environment | event["environment"])
            elif kind == "ceilings":
                self.run = replace(self.run, ceilings=event["ceilings"])
            elif kind == "warning":
                self.run = self.run.with_warning(str(event["text"]))
            elif kind == "point":
                self.run = self.run.with_point(Point.from_dict(event["point"]))
                self._save()
        except (KeyError, TypeError, ValueError) as error:
            self.run = self.run.with_warning(f"An event of the measuring process was not understood: {error}")
        self._tell(self._overall(event))

    def _overall(self, event: Event) -> Event:
        """Progress over all parts instead of within one."""
        if event["event"] not in ("progress", "plan"):
            return event
        total = self._total * len(self.parts)
        return event | {"done": self._total * self._part + self._done, "total": total}

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
    folder = data_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "measuring.lock"
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
