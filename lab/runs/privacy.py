"""Keep what is personal out of run files: paths, the host's name, the user's name.

Run files are made to be passed on. Error texts of libraries are where such words come in.
"""

from __future__ import annotations

import contextlib
import getpass
import re
import socket
from functools import cache
from pathlib import Path
from typing import Any

from lab.runs.checks import printable

SHORTEST_NAME = 3  # a shorter user or host name would take ordinary words with it
FREE_TEXT = ("message", "reason", "warnings")
"""Fields where a library's words, and so a user or host name, may stand; the others hold names of things."""

_QUOTED = re.compile(r"""(["'])(?:/|[A-Za-z]:[\\/]|\\\\)[^"'\n]*[\\/](?=[^"'\n]*\1)""")
_WINDOWS = re.compile(r'(?<![A-Za-z])(?:[A-Za-z]:[\\/]|\\\\)(?:[^\\/:*?"<>|\r\n]+[\\/])+')
_POSIX = re.compile(r"(?:file://|(?<![\w./:>)\]-]))/(?:[^\s/'\"<>:]+/)+")
_BELOW_HOME = re.compile(r"~[\\/](?:[^\s\\/'\"<>:]+[\\/])*")


def without_paths(text: str) -> str:
    """Return the text with the last part alone of every absolute path.

    Args:
        text: any text.
    """
    for home in (str(Path.home()), Path.home().as_posix()):
        if len(Path(home).parts) > 1:
            text = text.replace(home, "~")
    text = _QUOTED.sub(r"\1", _BELOW_HOME.sub("", text))
    return _POSIX.sub("", _WINDOWS.sub("", text))


def impersonal(text: str) -> str:
    """Return the text without paths, the names of this host and user, and what steers a terminal.

    Args:
        text: any text.
    """
    text = printable(without_paths(text))
    for name in _names():
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "…", text, flags=re.IGNORECASE)
    return text


@cache
def _names() -> tuple[str, ...]:
    names = {socket.gethostname(), socket.gethostname().partition(".")[0]}
    with contextlib.suppress(OSError, KeyError, ImportError):  # a user without a name
        names.add(getpass.getuser())
    return tuple(sorted((name for name in names if len(name) >= SHORTEST_NAME), key=len, reverse=True))


def cleaned(value: Any, *, free_text: bool = False) -> Any:
    """Return a run's dictionary, or a part of it, without anything personal.

    Args:
        value: what `Run.to_dict` gave.
        free_text: whether it stands in one of the FREE_TEXT fields.
    """
    if isinstance(value, str):
        return impersonal(value) if free_text else without_paths(value)
    if isinstance(value, dict):
        return {name: cleaned(item, free_text=free_text or name in FREE_TEXT) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [cleaned(item, free_text=free_text) for item in value]
    return value
