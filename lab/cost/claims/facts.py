"""Measured numbers from data files, with the rounding that their digits imply."""

import json
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from lab.cost.claims.printed import Interval, read_figure

DATA = Path(__file__).resolve().parents[2] / "data"


@cache
def _load(name: str) -> Any:
    """Read a data file, numbers as decimals so that their digits survive."""
    text = (DATA / f"{name}.json").read_text(encoding="utf-8")
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def tables() -> dict[str, Any]:
    """Load the chapter's tables.

    Returns:
        The data file's content, numbers as decimals.
    """
    return _load("chapter_measurements")


def published_rows(tokens: int, column: str, baselines: tuple[str, ...]) -> list[tuple[Interval, Interval]]:
    """Find published rates of a kernel beside those of standard attention, at one length.

    Args:
        tokens: the length.
        column: the kernel's column.
        baselines: what the tables call standard attention.

    Returns:
        The kernel's and the baseline's printed rate, from every table that has both.
    """
    found = []
    for table in _load("published_tables"):
        for values in table["rows"]:
            entry = dict(zip(table["columns"], values, strict=True))
            base = next((entry[name] for name in baselines if entry.get(name)), None)
            if entry.get("T") == tokens and entry.get(column) and base:
                found.append((read_figure(str(entry[column])).interval, read_figure(str(base)).interval))
    return found


def row(table: str, where: dict[str, Any]) -> dict[str, Any]:
    """Find the one row of a table with the given keys.

    Args:
        table: name of a list of rows in the data file.
        where: column values that identify the row.

    Returns:
        The row.

    Raises:
        ValueError: no row, or more than one, fits.
    """
    found = [entry for entry in tables()[table] if all(entry[key] == want for key, want in where.items())]
    if len(found) != 1:
        raise ValueError(f"where must name one row of {table}, got {where!r} and {len(found)} rows")
    return found[0]


def cell(table: str, where: dict[str, Any], column: str) -> Interval:
    """Read one measured cell.

    Args:
        table: name of a list of rows in the data file.
        where: column values that identify the row.
        column: the cell's column.

    Returns:
        The printed number in the table's unit, with its rounding.
    """
    return read_figure(str(row(table, where)[column])).interval


def column(table: str, name: str) -> list[Interval]:
    """Read a whole column.

    Args:
        table: name of a list of rows, or of a table of lists, in the data file.
        name: the column.

    Returns:
        The printed numbers in the table's unit, top to bottom, with their rounding.
    """
    content = tables()[table]
    cells = content[name] if isinstance(content, dict) else [entry[name] for entry in content]
    return [read_figure(str(value)).interval for value in cells]


def device(name: str) -> Interval:
    """Read one property of the chapter's card.

    Args:
        name: a key of the data file's device section.

    Returns:
        The number in the unit of the key's suffix, taken as exact.
    """
    return read_figure(str(tables()["device"][name]), half_width="0").interval
