"""Errors against float64 by number type as marks, beside one rounding of each."""

from __future__ import annotations

from collections.abc import Iterable

from lab.runs import Point, Run
from lab.view import backend_table, charts
from lab.view.axes import Axis
from lab.view.backend_table import plain_points
from lab.view.format import digits
from lab.view.frames import Mark
from lab.view.palette import LIMIT, NAMES, Palette, role_of
from lab.view.points import REFUSALS
from lab.view.prompt import Prompt

TYPES = ("fp32", "fp16", "bf16")
LABELS = {
    f"{role}_{where}": name + said
    for where, said in (("reference", ""), ("here", ", here"))
    for role, name in NAMES.items()
}
STEP = 0.1
COMPARED = ("naive", "math", "flash", "efficient", "cudnn")
SIGNIFICAND_BITS = {"bf16": 8, "fp16": 11, "fp32": 24}
"""Bits of the significand with the hidden one. Source: IEEE 754-2019, table 3.5; bfloat16: 7 stored bits."""


def roundoff(dtype: str) -> float:
    """Unit roundoff: the largest relative error of rounding one number.

    Args:
        dtype: a key of SIGNIFICAND_BITS.
    """
    return 2.0 ** -SIGNIFICAND_BITS[dtype]


def types_axis() -> Axis:
    """The number types side by side, from the finest to the coarsest, with room for labels."""
    ticks = tuple((float(place), dtype) for place, dtype in enumerate(TYPES, 1))
    return Axis("number type", 0.4, len(TYPES) + 1.1, ticks, None)


def type_at(x: float) -> str:
    """The number type that a place on the axis belongs to."""
    return TYPES[min(len(TYPES), max(1, round(x))) - 1]


def place(series: str, dtype: str) -> float:
    """Where a series stands on the axis: side by side around its number type."""
    middle = (len(LABELS) - 1) / 2
    return TYPES.index(dtype) + 1 + (list(LABELS).index(series) - middle) * STEP


def roundings() -> dict[str, list[tuple[float, float]]]:
    """One rounding of each number type, as level lines under its points."""
    reach = STEP * len(LABELS) / 2
    return {
        f"one_rounding_{dtype}": [(place - reach, roundoff(dtype)), (place + reach, roundoff(dtype))]
        for place, dtype in enumerate(TYPES, 1)
    }


def series(palette: Palette) -> list[charts.Series]:
    """Implementations in the colours of their roles, and one rounding of each type as a limit."""
    found = [charts.role_series(key, key.partition("_")[0], label, palette) for key, label in LABELS.items()]
    return found + [charts.role_series(key, LIMIT, "one rounding", palette, 2) for key in roundings()]


def error_text(error: float) -> str:
    """An error, in powers of ten."""
    return f"{error:.1e}"


def largest(marks: Iterable[Mark], kind: str, dtype: str) -> str | None:
    """How far the answers of one kind of marks lie from float64, in the type shown, else in the coarsest there is.

    Args:
        marks: of the chart.
        kind: "measured" or "recorded".
        dtype: the number type shown; an error of another says nothing of it.

    Returns:
        A clause that names the type; None where nothing of this kind is drawn, or none in a recorded run's type.
    """
    errors: dict[str, list[float]] = {}
    for mark in marks:
        if mark.kind == kind:
            errors.setdefault(type_at(mark.x), []).append(mark.y)
    told = dtype if dtype in errors else max(errors, key=TYPES.index, default=dtype)
    if told not in errors or (kind == "recorded" and told != dtype):
        return None
    return f"every {told} answer lies within {error_text(max(errors[told]))} of float64"


def recorded(run: Run | None, view: Prompt) -> list[Mark]:
    """The errors that a recorded run states, where its shape is the scenario's."""
    wanted = view.shape(1, "")
    names = ("heads", "kv_heads", "head_dim")
    if run is None or any(getattr(run.spec, name) != wanted[name] for name in names):
        return []
    return [
        _mark(f"{role_of(name)}_reference", "recorded", row["dtype"], error)
        for row in run.tables.get("max_abs_error_vs_float64", [])
        for name, error in row.items()
        if name not in ("T", "dtype")
    ]


def judged_points(run: Run | None) -> list[Point]:
    """The points of a run whose errors belong on the chart: plain calls, random inputs, explicit masks.

    Args:
        run: of "backends", "accuracy" or "mask"; None for none.
    """
    found = [
        point for point in (run.points if run else ())
        if ((point.experiment, point.variant) == ("accuracy", "random") and point.implementation in COMPARED)
        or (point.experiment == "mask" and point.variant in backend_table.MASKS)
    ]  # fmt: skip
    return [*plain_points(run), *found]


def measured(run: Run | None) -> list[Mark]:
    """The errors of this machine's backends."""
    return [
        _mark(f"{role_of(point.implementation)}_here", "measured", point.dtype, point.max_abs_error)
        for point in judged_points(run)
        if _comparable(point) and point.max_abs_error and point.dtype in TYPES
    ]


def label_places(marks: list[Mark]) -> dict[str, list[tuple[float, float]]]:
    """Where each series is named: to the right of the last number type that it has a point in."""
    last: dict[str, Mark] = {}
    for mark in marks:
        if mark.series not in last or (mark.x, mark.y) > (last[mark.series].x, last[mark.series].y):
            last[mark.series] = mark
    reach = STEP * len(LABELS) / 2
    return {key: [(round(mark.x) + reach, mark.y)] for key, mark in last.items()}


def _comparable(point: Point) -> bool:
    known = point.implementation not in ("flex", "sdpa") and point.status not in REFUSALS
    return known and bool(point.max_abs_error)


def _mark(series: str, kind: str, dtype: str, error: float) -> Mark:
    return Mark(series, kind, place(series, dtype), error, error, error)


def errors_by_type(run: Run | None) -> dict[str, list[float]]:
    """The errors of a run by number type: those that it states, and those of its backends."""
    found: dict[str, list[float]] = {}
    for row in run.tables.get("max_abs_error_vs_float64", []) if run else ():
        stated = [error for name, error in row.items() if name not in ("T", "dtype")]
        found.setdefault(row["dtype"], []).extend(stated)
    for point in judged_points(run):
        if _comparable(point) and point.max_abs_error:
            found.setdefault(point.dtype, []).append(point.max_abs_error)
    return found


def most_roundings(*runs: Run | None) -> str | None:
    """The largest error of some runs in roundings of its own number type; None where they hold none.

    Args:
        runs: measured here or recorded; None for none.
    """
    found = [
        max(errors) / roundoff(dtype)
        for run in runs
        for dtype, errors in errors_by_type(run).items()
        if dtype in SIGNIFICAND_BITS
    ]
    return f"{digits(max(found), 2)} roundings" if found else None


def sentences(run: Run | None, where: str) -> str:
    """How the errors of a run compare with one rounding of their number type.

    Args:
        run: measured here or recorded; None for none.
        where: the device, in words.
    """
    parts = []
    for dtype, errors in errors_by_type(run).items():
        if dtype in SIGNIFICAND_BITS:
            low, high = (digits(end(errors) / roundoff(dtype), 2) for end in (min, max))
            parts.append(f"{dtype}: {low}" if low == high else f"{dtype}: {low} to {high}")
    if not parts:
        return f"No errors by number type: this experiment has not measured them on {where} at this shape."
    return (
        f"**{where[:1].upper()}{where[1:]}**, largest error in units of one rounding: {'; '.join(parts)}. "
        "One rounding is what storing the result costs at least; the rest comes from scores and "
        "probabilities that were rounded on the way."
    )
