"""Rows of a cost report: a value with its unit, the formula it comes from, and the terms it is a sum of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.cli.tables import size_text

_FLOPS = (("PFLOPs", 1e15), ("TFLOPs", 1e12), ("GFLOPs", 1e9), ("MFLOPs", 1e6), ("kFLOPs", 1e3))


@dataclass(frozen=True)
class Row:
    """One figure: its value in a unit ("FLOPs", "bytes", "tokens", …), how it is computed, and its terms."""

    name: str
    value: int | float | str | None
    unit: str = ""
    formula: str = ""
    terms: tuple[Row, ...] = ()
    spread: bool = False  # whether its terms are shown even when totals are not opened

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON values; formula and terms only where there are any."""
        found: dict[str, Any] = {"name": self.name, "value": self.value, "unit": self.unit}
        if self.formula:
            found["formula"] = self.formula
        if self.terms:
            found["terms"] = [term.to_dict() for term in self.terms]
        return found


@dataclass(frozen=True)
class Section:
    """A heading with its rows."""

    title: str
    rows: tuple[Row, ...]


def summed(name: str, unit: str, terms: Iterable[Row], formula: str = "", *, spread: bool = False) -> Row:
    """Build a row that is the sum of its terms.

    Args:
        name: the total's name.
        unit: of the total and of every term.
        terms: the terms, with whole-number values.
        formula: how the total comes about, if more is to be said than that it is a sum.
        spread: whether its terms are always shown.

    Returns:
        The row; terms of value 0 are left out.
    """
    kept = tuple(term for term in terms if term.value)
    return Row(name, sum(int(term.value or 0) for term in kept), unit, formula, kept, spread)


def value_text(row: Row) -> str:
    """Write a value for people, in a unit that suits its size."""
    if row.value is None:
        return "never"
    if isinstance(row.value, str):
        return row.value
    if row.unit == "bytes":
        return _bytes_text(row.value)
    if row.unit == "FLOPs":
        for unit, factor in _FLOPS:
            if row.value >= factor:
                return f"{row.value / factor:.4g} {unit}"
    if row.unit == "share":
        return f"{row.value:.1%}"
    number = f"{row.value:,}" if isinstance(row.value, int) else f"{row.value:,.1f}"
    return f"{number} {row.unit}".rstrip()


def _bytes_text(size_bytes: float) -> str:
    """Write bytes in binary units, with decimal ones beside them once the two differ visibly."""
    if size_bytes < 1e6:
        return size_text(size_bytes)
    decimal = f"{size_bytes / 1e9:.4g} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.4g} MB"
    return f"{size_text(size_bytes)} ({decimal})"


def print_sections(console: Console, sections: Iterable[Section], *, explain: bool) -> None:
    """Print sections as tables; with `explain` every total is followed by its terms and formulas.

    Args:
        console: where to.
        sections: what to print.
        explain: whether to open totals and show formulas.
    """
    for section in sections:
        console.print(Text(section.title, style="bold"))
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(overflow="fold")
        table.add_column(justify="right", no_wrap=True)
        table.add_column(overflow="fold", style="dim")
        for depth, row in _opened(section.rows, explain):
            name = Text("  " * depth + row.name)
            table.add_row(name, Text(value_text(row)), Text(row.formula if explain else ""))
        console.print(table)
        console.print()


def _opened(rows: Iterable[Row], explain: bool, depth: int = 1) -> Iterator[tuple[int, Row]]:
    for row in rows:
        yield depth, row
        if explain or row.spread:
            yield from _opened(row.terms, explain, depth + 1)
