"""What this machine's measuring process says of itself, asked once in the background. No torch here."""

from __future__ import annotations

import threading
from typing import Any

from lab.measure.child import Child
from lab.runs import JobSpec

_asking = threading.Lock()
_asked = False
_answer: dict[str, Any] | None = None


def machine() -> dict[str, Any] | None:
    """Describe the device that "auto" stands for on this machine; never waits.

    The first call starts a child process that loads torch, which takes seconds; until it has answered, and
    where it cannot, the answer is None.

    Returns:
        The environment as run files hold it, or None.
    """
    global _asked
    with _asking:
        if not _asked:
            _asked = True
            threading.Thread(target=_ask, daemon=True, name="describe the machine").start()
    return _answer


def _ask() -> None:
    global _answer
    try:
        _answer = describe(JobSpec("selftest"))
    except OSError:
        return


def describe(spec: JobSpec) -> dict[str, Any] | None:
    """Ask a child process for the environment of a job; waits for it.

    Args:
        spec: its device, dtype and threads count.

    Returns:
        The environment, or None where the child could not say.

    Raises:
        OSError: the child cannot be started.
    """
    child = Child(spec, "environment")
    found: dict[str, Any] = {}
    try:
        for event in child.events():
            if event["event"] == "environment" and isinstance(event.get("environment"), dict):
                found |= event["environment"]
    finally:
        child.close()
    return found or None
