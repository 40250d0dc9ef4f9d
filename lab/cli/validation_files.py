"""The file of a validation: its events, one JSON object a line, checked when they are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lab.cli.exits import fail
from lab.cost.calibration import Calibration
from lab.runs import DTYPES, IMPLEMENTATIONS
from lab.runs.checks import flag, one_of, optional, seconds, shown, text, whole

Event = dict[str, Any]

CELL = {
    "kind": one_of("prefill", "decode"),
    "implementation": one_of(*IMPLEMENTATIONS),
    "dtype": one_of(*DTYPES),
    "batch": whole(1),
    "kv_len": whole(1),
    "causal": flag,
    "fault": optional(text()),
}
TIMED = {"noise": optional(text()), "predicted_s": seconds, "measured_s": seconds}
"""What a cell without a fault has as well."""


def read_events(path: Path) -> list[Event]:
    """Read a file that `kept` wrote.

    Args:
        path: the file.

    Returns:
        The events; at least one.

    Raises:
        typer.Exit: it cannot be read, or is not such a file.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
        if not lines:
            raise ValueError("it is empty")
        return [_event(line, number) for number, line in enumerate(lines, 1)]
    except (OSError, ValueError, RecursionError) as error:
        said = error.strerror if isinstance(error, OSError) else str(error)
        fail(f"{path.name} cannot be read as the file of a validation: {said}")


def _event(line: str, number: int) -> Event:
    """Read one line.

    Raises:
        ValueError: it is not JSON, no event, or one with a value that is not allowed.
    """
    try:
        event = json.loads(line)
        if not isinstance(event, dict) or event.get("event") not in ("calibration", "cell"):
            raise ValueError(f"{shown(event)} is neither the event of a calibration nor that of a cell")
        if event["event"] == "calibration":
            Calibration.from_dict(event["calibration"])
            return event
        for name, check in (CELL if event.get("fault") else CELL | TIMED).items():
            check(event[name], name)
    except KeyError as error:
        raise ValueError(f"line {number}: it lacks the field {error}") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"line {number}: {error}") from None
    return event


def kept(events: Iterable[Event], path: Path | None) -> Iterator[Event]:
    """Pass events on, each written to a file as it comes: what ends early loses none.

    Args:
        events: as they come.
        path: the file, or None for none.

    Yields:
        The events.

    Raises:
        typer.Exit: the file cannot be written.
    """
    if path is None:
        yield from events
        return
    try:
        with path.open("w", encoding="utf-8") as file:
            for event in events:
                file.write(json.dumps(event) + "\n")
                file.flush()
                yield event
    except OSError as error:
        fail(f"{path.name} cannot be written: {error.strerror}")
