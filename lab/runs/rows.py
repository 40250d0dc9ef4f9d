"""A run as a flat table: one row a point, one column a value, for spreadsheets and notebooks."""

from __future__ import annotations

import csv
import io
from dataclasses import fields
from typing import Any

from lab.runs.point import Point, Timing
from lab.runs.run import Run

Row = dict[str, Any]

ENVIRONMENT = ("device_name", "torch", "threads", "os")
"""What of the environment stands in every row: enough to tell two exports apart."""


def rows(run: Run) -> list[Row]:
    """Flatten a run.

    Args:
        run: any run.

    Returns:
        One row a point, all with the same columns in the same order. Lists stay lists; what an experiment saw
        beyond time, memory and error has a column of its own, "measure_" before its name.
    """
    names = sorted({name for point in run.points for name in point.measures})
    return [_row(run, point, names) for point in run.points]


def _row(run: Run, point: Point, names: list[str]) -> Row:
    row: Row = {"run_id": run.run_id, "created_utc": run.created_utc, "recorded_on": run.recorded_on}
    row |= {name: run.environment.get(name) for name in ENVIRONMENT}
    for field in fields(Point):
        if field.name not in ("timing", "measures", "warnings"):
            row[field.name] = getattr(point, field.name)
    row["accepted"] = point.accepted
    for field in fields(Timing):
        row[field.name] = getattr(point.timing, field.name) if point.timing else None
    row["samples_s"] = list(point.timing.samples_s) if point.timing else []
    row["repeats"] = [each.median_s for each in point.timing.repeats] if point.timing else []
    row["within_spread"] = point.timing.within_spread if point.timing else None
    row["between_spread"] = point.timing.between_spread if point.timing else None
    row |= {f"measure_{name}": point.measures.get(name) for name in names}
    row["warnings"] = list(point.warnings)
    return row


def to_csv(run: Run) -> str:
    """Write a run as comma-separated values, with a header; lists are joined by "; ".

    Args:
        run: any run.

    Returns:
        The text; None is an empty cell.
    """
    found = rows(run)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(found[0]) if found else ["run_id"], lineterminator="\n")
    writer.writeheader()
    for row in found:
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return stream.getvalue()


def to_markdown(run: Run) -> str:
    """Write a run as a Markdown table, without raw samples and columns that are empty.

    Args:
        run: any run.

    Returns:
        The text.
    """
    found = rows(run)
    left_out = ("samples_s", "warnings", "run_id", "created_utc", "recorded_on", *ENVIRONMENT)
    columns = [
        name
        for name in (found[0] if found else {})
        if name not in left_out and any(row[name] not in (None, "", []) for row in found)
    ]
    title = f"Run {run.run_id} on {run.device_label}, torch {run.environment.get('torch') or 'not known'}"
    lines = [title, "", _line(columns), _line(["---"] * len(columns))] if columns else [title]
    lines += [_line([_cell(row[name]) for name in columns]) for row in found]
    return "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return "; ".join(map(str, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)
