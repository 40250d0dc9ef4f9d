"""What a measuring child tells its parent: one strict JSON object a line."""

from __future__ import annotations

import json
import threading
from typing import Any, TextIO

from lab.runs import Point


class Events:
    """Writes events to a stream, a line at a time, from whichever thread."""

    def __init__(self, stream: TextIO) -> None:
        """Write to this stream; its other end is the parent."""
        self._stream = stream
        self._lock = threading.Lock()
        self._ended = False
        self._done = self._total = 0
        self.ceilings_told = False

    def environment(self, environment: dict[str, Any]) -> None:
        """Tell what this process measures on."""
        self._write({"event": "environment", "environment": environment})

    def plan(self, total: int) -> None:
        """Tell how many points there will be."""
        self._total = total
        self._write({"event": "plan", "total": total})

    def progress(self, what: str) -> None:
        """Tell what is being done."""
        self._write({"event": "progress", "done": self._done, "total": self._total, "what": what})

    def step(self) -> None:
        """Count a step of the plan that brings no point."""
        self._done += 1

    def point(self, point: Point) -> None:
        """Tell a point."""
        self._done += 1
        self._write({"event": "point", "point": point.to_dict()})

    def ceilings(self, ceilings: dict[str, Any]) -> None:
        """Tell what the device reaches."""
        self.ceilings_told = True
        self._write({"event": "ceilings", "ceilings": ceilings})

    def warning(self, text: str) -> None:
        """Tell something worth knowing."""
        self._write({"event": "warning", "text": text})

    def end(self, status: str, message: str | None = None) -> None:
        """Tell how it ended; nothing is told after it."""
        self._write({"event": "end", "status": status, "message": message})
        self._ended = True

    def pass_on(self, event: dict[str, Any]) -> None:
        """Tell an event of another teller, as it is."""
        self._write(event)

    def _write(self, event: dict[str, Any]) -> None:
        line = json.dumps(event, allow_nan=False)
        with self._lock:
            if not self._ended:
                self._stream.write(line + "\n")
                self._stream.flush()
