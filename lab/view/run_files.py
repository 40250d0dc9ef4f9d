"""Runs that a reader brings and takes: uploaded files, refused in a sentence; an archive of those shown."""

from __future__ import annotations

import html
import io
import zipfile
from collections.abc import Iterable, Sequence
from typing import Protocol

from lab.runs import Run, RunFileError, from_text, reference_runs, to_text
from lab.view import points
from lab.view.caveats import contents
from lab.view.ceilings import short_name
from lab.view.format import whole


class Upload(Protocol):
    """A file as the browser sent it."""

    name: str

    def getvalue(self) -> bytes: ...  # noqa: D102


def read(files: Iterable[Upload]) -> tuple[list[Run], list[str]]:
    """Read uploaded run files.

    Args:
        files: in the order of the reader.

    Returns:
        The runs, and one sentence for each file that is none.
    """
    found, refusals = [], []
    for file in files:
        try:
            found.append(from_text(file.getvalue(), file.name))
        except RunFileError as error:
            refusals.append(str(error))
    return found, refusals


def names(runs: Sequence[Run], uploaded: Sequence[Run]) -> dict[str, str]:
    """What to call each run, by identifier: device, experiment and time.

    Args:
        runs: kept here or bundled.
        uploaded: brought by the reader.
    """
    found = {}
    for run, suffix in [*((run, "") for run in runs), *((run, ", uploaded") for run in uploaded)]:
        when = (run.created_utc or "").replace("T", " ")[:16]
        what = "published" if run.recorded_on is not None else run.spec.experiment
        parts = (run.title,) if run.title is not None else (short_name(run), what, when)
        found[run.run_id] = " · ".join(part for part in parts if part) + suffix
    return found


def published() -> list[dict[str, str]]:
    """The published tables, one a row: what they hold, or why none of their figures is a point."""
    return [
        {
            "table": str(run.title),
            "card": short_name(run),
            "points": whole(len(run.points)),
            "what it holds": contents(run),
            "source": str(run.source),
        }
        for run in reference_runs()
        if run.title is not None
    ]


def legend(labels: Iterable[tuple[str, str, str]]) -> str:
    """The runs of a chart as HTML: whoever wrote a run file chose its words, so they are escaped.

    Args:
        labels: (colour, glyph, words) of each run.
    """
    parts = (
        f'<span style="color:{colour};font-weight:600;margin-right:1.2rem">'
        f"{glyph}&nbsp;{html.escape(words)}</span>"
        for colour, glyph, words in labels
    )
    return f"<div>{''.join(parts)}</div>"


def archive(runs: Iterable[Run]) -> bytes:
    """The runs as one zip: a JSON that loads back, and a CSV of the points, for each."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for run in runs:
            file.writestr(f"{run.run_id}.json", to_text(run))
            if run.points:
                file.writestr(f"{run.run_id}.csv", points.csv_bytes(run))
    return buffer.getvalue()
