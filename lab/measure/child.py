"""One child process: its command, the specification on its stdin, its JSON lines, and how it ended.

The child exits when its stdin closes, so it never outlives the process that started it. No torch here.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lab.runs import JobSpec
from lab.runs.privacy import impersonal

ROOT = Path(__file__).resolve().parents[2]
WORKER = (sys.executable, "-m", "lab.measure.worker")
GRACE_S = 2.0  # between asking a child to end and ending it
STDERR_LINES = 40
FROM_OUTSIDE = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
"""Signals that somebody sends; any other is the process's own fault."""
VMSTAT = Path("/proc/vmstat")


def oom_kills() -> int | None:
    """Count the processes that the kernel has killed for lack of memory; None where it does not say."""
    with contextlib.suppress(OSError):
        for line in VMSTAT.read_text(encoding="ascii").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return None


class Child:
    """A worker process measuring one part of a job."""

    def __init__(self, spec: JobSpec, part: str, command: Sequence[str] = WORKER) -> None:
        """Start the child and hand it its specification.

        Args:
            spec: what to measure.
            part: "time", "memory" or "environment".
            command: what to start; tests put a script of their own here.

        Raises:
            OSError: the process cannot be started.
        """
        self._kills_before = oom_kills()
        self._process = subprocess.Popen(
            [*command, "--part", part],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,  # Ctrl-C in a terminal is the parent's to answer
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # the same on Windows
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._reader = threading.Thread(target=self._drain_stderr, daemon=True)
        self._reader.start()
        with contextlib.suppress(OSError):  # a child that is already gone is reported by `ending`
            self._stdin.write(json.dumps(spec.to_dict()) + "\n")
            self._stdin.flush()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def _stdin(self) -> Any:
        return self._process.stdin

    def _drain_stderr(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._stderr.append(line.rstrip())

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the child's events until it ends; lines that are no events are skipped."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict) and isinstance(event.get("event"), str):
                    yield event

    def stop(self) -> None:
        """Ask the child to end, and end it if it does not."""
        with contextlib.suppress(OSError):
            self._process.terminate()
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def close(self) -> int:
        """Wait for the child to be gone.

        Returns:
            Its exit code; negative for the signal that ended it.
        """
        with contextlib.suppress(OSError):
            self._stdin.close()
        code = self._process.wait()
        self._reader.join(GRACE_S)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        return code

    def ending(self, code: int) -> tuple[str, str] | None:
        """Say how a child ended that sent no end event.

        Args:
            code: from `close`.

        Returns:
            A status of a run and a sentence; None for a child that ended as it should.
        """
        if code == 0:
            return None
        if code < 0:
            return self._ended_by_signal(-code)
        last = next((line for line in reversed(self._stderr) if line.strip()), "it said nothing")
        return "crashed", f"The measuring process failed with exit code {code}: {impersonal(last)[:500]}"

    def _ended_by_signal(self, number: int) -> tuple[str, str]:
        if self._killed_for_memory(number):
            return "out_of_memory", "The system ended the measuring process because memory ran out."
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        if name in FROM_OUTSIDE:
            return "crashed", f"The measuring process was ended from outside ({name})."
        return "crashed", f"The measuring process broke down ({name})."

    def _killed_for_memory(self, number: int) -> bool:
        now = oom_kills()
        rose = now is not None and self._kills_before is not None and now > self._kills_before
        return number == getattr(signal, "SIGKILL", 9) and rose
