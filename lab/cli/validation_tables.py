"""The tables of `python -m lab validate`, as Markdown text: every cell, its error, and what was assumed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lab.cost.calibration import Calibration
from lab.cost.score import FITTED, Cell, Score, by_family, score


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a Markdown table whose columns line up.

    Args:
        header: names of the columns.
        rows: texts, as many as columns.

    Returns:
        The lines of the table.
    """
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    texts = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) + " |"
        for line in lines
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([texts[0], rule, *texts[1:]])


def cell_table(cells: Sequence[Cell], ratios: bool = False) -> str:
    """Show predicted, measured and error of every cell.

    Args:
        cells: the cells.
        ratios: whether they are ratios of times instead of seconds.

    Returns:
        A Markdown table.
    """
    show = (lambda value: f"{value:.3f}") if ratios else seconds_text
    rows = [
        (cell.family, cell.label, show(cell.predicted), show(cell.measured), error_text(cell))
        for cell in cells
    ]
    return table(("family", "cell", "predicted", "measured", "error"), rows)


def score_table(cells: Sequence[Cell], limit: float = 0.2) -> str:
    """Show the mean error, bias, worst cell and misses of each family and of all.

    Args:
        cells: the cells; fitted ones are not scored.
        limit: |error| beyond which a cell is a miss.

    Returns:
        A Markdown table with one line a family and one for all cells.
    """
    families = by_family(cells, limit)
    rows = [_score_row(name, part) for name, part in families.items()]
    if len(families) > 1:
        rows.append(_score_row("all", score(cells, limit)))
    header = ("family", "cells", "mean error", "bias", "worst", "worst cell", f"over {limit:.0%}")
    return table(header, rows)


def constant_table(calibration: Calibration) -> str:
    """Show every constant of a calibration with its source."""
    return table(("constant", "value", "unit", "source"), calibration.constants())


def verdict(name: str, result: Score, mean_limit: float, cell_limit: float | None = None) -> str:
    """Say in one line whether the errors are within the stated limits.

    Args:
        name: what was scored.
        result: the score.
        mean_limit: largest mean error allowed.
        cell_limit: largest |error| of a cell allowed; None when only the mean is limited.

    Returns:
        "met" or "MISSED" with the figures.
    """
    within = result.mean_absolute_error <= mean_limit
    within = within and (cell_limit is None or abs(result.worst.error) <= cell_limit)
    limits = f"mean at most {mean_limit:.0%}" + (
        "" if cell_limit is None else f", no cell over {cell_limit:.0%}"
    )
    worst = f"{result.worst.error:+.1%} ({result.worst.family}, {result.worst.label})"
    found = f"mean {result.mean_absolute_error:.1%}, worst {worst}, {result.cells} cells"
    return f"{'met' if within else 'MISSED'}: {name}: {found}; {limits}"


def error_text(cell: Cell) -> str:
    """Show a cell's error with its sign, or that it was fitted and proves nothing."""
    return "fitted" if cell.role == FITTED else f"{cell.error:+.1%}"


def seconds_text(seconds: float) -> str:
    """Show a time with three figures and a fitting unit."""
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def _score_row(name: str, part: Score) -> tuple[str, ...]:
    return (
        name,
        str(part.cells),
        f"{part.mean_absolute_error:.1%}",
        f"{part.bias:+.1%}",
        f"{part.worst.error:+.1%}",
        part.worst.label if name != "all" else f"{part.worst.family}, {part.worst.label}",
        str(len(part.misses)),
    )
