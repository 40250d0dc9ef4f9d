"""The folder of runs and when it last changed: what is read from it stays true for as long as neither differs."""

from __future__ import annotations

import os
from contextlib import suppress

from lab.runs.store import runs_folder

Stamp = tuple[str, int]


def stamp() -> Stamp:
    """The folder and its time of change in ns; every save of a run replaces a file of it, which changes that."""
    changed_ns = 0
    with suppress(OSError):  # nothing has been measured yet
        changed_ns = os.stat(runs_folder()).st_mtime_ns
    return str(runs_folder()), changed_ns
