"""Runs and points as tables for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from rich.console import JustifyMethod
from rich.table import Table

from lab.runs import Point, Run

MOST_ROWS = 200
"""Points of an experiment that a table shows unless all are asked for: more than a default job of any brings."""

MOST_CELLS = 50
"""Cells that a line names; of more it says how many."""

GAP = 2
"""Characters between columns."""

NARROW = 24
"""Characters: with less room than this beside what names a cell, two figures hardly fit."""

_Column = tuple[str, list[str]]
_RUN_COLUMNS = ("run", "what", "device", "type", "points", "status")
UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def size_text(size_bytes: float | None) -> str:
    """Write a number of bytes in binary units; empty for None."""
    if size_bytes is None:
        return ""
    for unit, factor in UNITS:
        if size_bytes >= factor:
            return f"{size_bytes / factor:.4g} {unit}"
    return f"{size_bytes:.0f} B"


def time_text(seconds: float | None) -> str:
    """Write a duration with a unit that suits it; empty for None."""
    if seconds is None:
        return ""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= factor:
            return f"{seconds / factor:.4g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def points_tables(
    points: Iterable[Point], width: int, *, recorded: bool = False, most: int | None = None
) -> tuple[str | None, list[Table]]:
    """Tabulate points; what is the same for all goes into the title, and empty columns are left out.

    The verdict of the lab is not passed on points that were recorded elsewhere.

    Args:
        points: of one experiment.
        width: of the terminal, in characters; figures that find no room go into a further table of the same cells.
        recorded: whether they come from elsewhere.
        most: points, at most; None for all.
    """
    found = sorted(points, key=_place)
    columns = [
        (name, [write(point) for point in found])
        for name, write in (_COLUMNS | _measures(found)).items()
        if not (recorded and name == "status")
    ]
    shown = [(name, cells) for name, cells in columns if _varies(cells) or name in _ALWAYS]
    told = [(name, cells[:most]) for name, cells in shown if any(cells)]
    return _shared(columns), [_table(part, first=not place) for place, part in enumerate(_parts(told, width))]


def _parts(columns: list[_Column], width: int) -> list[list[_Column]]:
    """Columns in parts that fit a width, each part with the columns that name the cell."""
    naming = [column for column in columns if column[0] in _NAMING]
    room = width - sum(map(_wide, naming))
    if room < NARROW:  # a variant is told in words, which can stand below each other
        words = [
            word for name, cells in naming if name == "variant" for cell in cells for word in cell.split()
        ]
        room = width - sum(_wide(column) for column in naming if column[0] != "variant")
        room -= max(map(len, ("variant", *words))) + GAP if words else 0
    parts, left = [naming], room
    for column in columns:
        if column in naming:
            continue
        if _wide(column) > left and len(parts[-1]) > len(naming):
            parts.append(naming)
            left = room
        parts[-1] = [*parts[-1], column]
        left -= _wide(column)
    return parts


def _wide(column: _Column) -> int:
    name, cells = column
    return max(map(len, (name, *cells))) + GAP


def _table(columns: list[_Column], *, first: bool) -> Table:
    table = Table(box=None, pad_edge=False)
    for name, _ in columns:
        justify: JustifyMethod = "right" if name in _NUMBERS else "left"
        table.add_column(name, justify=justify, no_wrap=name != "variant")
    figures = [place for place, (name, _) in enumerate(columns) if name not in _NAMING]
    for row in zip(*(cells for _, cells in columns), strict=True):
        if first or any(row[place] for place in figures):
            table.add_row(*row)
    return table


def kernel_lines(points: Iterable[Point]) -> list[str]:
    """Say which kernels were seen for each implementation: one line each, too wide for a column."""
    seen: dict[tuple[str, str], None] = {}
    for point in points:
        if point.kernel is not None:
            seen[point.implementation, point.kernel] = None
    return [f"{implementation} ran {kernel}" for implementation, kernel in seen]


def reason_lines(points: Iterable[Point]) -> list[str]:
    """Say why points are not simply ok, one line for each reason, with the cells it is about."""
    cells: dict[tuple[str, str], list[str]] = {}
    for point in points:
        if point.reason:
            cells.setdefault((point.status, point.reason), []).append(_label(point))
    return [f"{status}: {_named(labels)}: {reason}" for (status, reason), labels in cells.items()]


def warning_lines(points: Iterable[Point]) -> list[str]:
    """Say what points warn of, one line for each warning, with the cells it is about."""
    cells: dict[str, list[str]] = {}
    for point in points:
        for text in point.warnings:
            cells.setdefault(text, []).append(_label(point))
    return [f"{_named(list(dict.fromkeys(labels)))}: {text}" for text, labels in cells.items()]


def _named(labels: list[str]) -> str:
    left_out = len(labels) - MOST_CELLS
    return ", ".join(labels[:MOST_CELLS]) + (f" and {left_out:,} more" if left_out > 0 else "")


def _label(point: Point) -> str:
    variant = f" ({point.variant})" if point.variant else ""
    batch = f" × {point.batch}" if point.batch > 1 else ""
    return f"{point.implementation}{variant} at {point.kv_len:,}{batch}"


def _place(point: Point) -> tuple[str | int, ...]:
    """Where a point stands in a table."""
    shape = (point.experiment, point.dtype, point.batch, point.q_len, point.kv_len, point.kv_heads)
    return (*shape, point.implementation, point.variant or "")


def _measures(points: Iterable[Point]) -> dict[str, Callable[[Point], str]]:
    """A column for each figure that an experiment saw beyond time, memory and error."""
    names = dict.fromkeys(name for point in points for name in point.measures)
    return {name: partial(_measure, name) for name in names}


def _measure(name: str, point: Point) -> str:
    return f"{point.measures[name]:.4g}" if name in point.measures else ""


def _spread(point: Point) -> str:
    within = point.timing.within_spread if point.timing else None
    return "" if within is None else f"{within:.1%}"


def _between(point: Point) -> str:
    between = point.timing.between_spread if point.timing else None
    return "" if between is None or point.timing is None else f"{between:.1%} of {len(point.timing.repeats)}"


def _varies(cells: list[str]) -> bool:
    return len(set(cells)) > 1


def _shared(columns: list[tuple[str, list[str]]]) -> str | None:
    """What all points have in common, in words."""
    same = [
        f"{name} {cells[0]}"
        for name, cells in columns
        if name not in _ALWAYS and any(cells) and not _varies(cells)
    ]
    return ", ".join(same) or None


def _status(point: Point) -> str:
    words = point.status if point.accepted or point.status != "ok" else "not accepted"
    return words.replace("_", " ")


def run_line(run: Run) -> dict[str, str | int]:
    """What a list of runs says of one: its identifier, what it measured, where, in which type, how it ended."""
    return {
        "run": run.run_id,
        "what": (run.title or run.spec.experiment).removesuffix(" (published)"),
        "device": run.device_label.partition(" (")[0],
        "type": str(run.environment.get("dtype") or run.spec.dtype),
        "points": len(run.points),
        "status": run.status.replace("_", " ") if run.recorded_on is None else "recorded",
    }


def runs_table(runs: Iterable[Run], width: int) -> Table:
    """Tabulate runs, one a line; identifiers are never cut, since they are what `show` takes.

    Args:
        runs: in order.
        width: of the terminal, in characters; where lines are longer, the type is left out and "what" is as
            wide as its longest word, so that no word is cut.
    """
    table = Table(box=None, pad_edge=False)
    lines = [{name: str(value) for name, value in run_line(run).items()} for run in runs]
    widest = {name: max(len(line[name]) for line in (*lines, {name: name})) for name in _RUN_COLUMNS}
    narrow = sum(widest.values()) + GAP * (len(widest) - 1) > width
    shown = [name for name in _RUN_COLUMNS if not (narrow and name == "type")]
    for name in shown:
        words = [word for line in lines for word in line[name].split()] if name == "what" and narrow else []
        longest = max(map(len, words), default=None)
        table.add_column(name, no_wrap=name not in ("what", "device"), width=longest)
    for line in lines:
        table.add_row(*(line[name] for name in shown))
    return table


def printed_table(run: Run) -> Table:
    """Tabulate the rows of a published table as its source prints them."""
    table = Table(box=None, pad_edge=False)
    for name in run.tables.get("columns", ()):
        table.add_column(str(name), justify="right")
    for row in run.tables.get("rows", ()):
        table.add_row(*("" if value is None else str(value) for value in row))
    return table


_COLUMNS: dict[str, Callable[[Point], str]] = {
    "experiment": lambda point: point.experiment,
    "heads": lambda point: f"{point.heads}/{point.kv_heads} of {point.head_dim}",
    "type": lambda point: point.dtype,
    "mask": lambda point: "causal" if point.causal else "full",
    "batch": lambda point: str(point.batch),
    "T": lambda point: f"{point.kv_len:,}",
    "kind": lambda point: point.implementation,
    "variant": lambda point: point.variant or "",
    "cache": lambda point: point.cache or "",
    "time": lambda point: time_text(point.timing.median_s if point.timing else None),
    "spread": _spread,
    "between processes": _between,
    "peak": lambda point: size_text(point.peak_extra_bytes),
    "predicted": lambda point: size_text(point.predicted_peak_bytes),
    "error": lambda point: "" if point.max_abs_error is None else f"{point.max_abs_error:.1e}",
    "status": _status,
}
_NAMING = ("experiment", "heads", "type", "mask", "batch", "T", "kind", "variant", "cache")
_ALWAYS = ("T", "kind", "time", "spread", "between processes", "peak", "predicted", "error", "status")
_NUMBERS = ("T", "batch", "time", "spread", "between processes", "peak", "predicted", "error")
