"""How readings group points and write numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lab.runs.comparison import Ratio, ratio_of
from lab.runs.point import Point

UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def timed(points: Iterable[Point]) -> list[Point]:
    """Keep the points that have a time and passed their check.

    Args:
        points: any.
    """
    return [point for point in points if point.timing is not None and point.status in ("ok", "noisy")]


def groups(points: Iterable[Point], key: Callable[[Point], Any]) -> dict[Any, list[Point]]:
    """Group points by a key, in the order they come.

    Args:
        points: any.
        key: of a point.
    """
    found: dict[Any, list[Point]] = {}
    for point in points:
        found.setdefault(key(point), []).append(point)
    return found


def one(points: Sequence[Point], **wanted: Any) -> Point | None:
    """Find the point whose fields have these values.

    Args:
        points: any.
        wanted: values by name of the field.

    Returns:
        The first such point, or None.
    """
    for point in points:
        if all(getattr(point, name) == value for name, value in wanted.items()):
            return point
    return None


def versus(first: Point | None, second: Point | None) -> Ratio | None:
    """Compare two points that were timed in the same rounds.

    Args:
        first: a point, or None.
        second: another, or None.

    Returns:
        Time of the first over time of the second; None where one is missing or has no time.
    """
    return None if first is None or second is None else ratio_of(first, second, paired=True)


def at(point: Point) -> str:
    """Name the shape of a point, such as "T = 1,024, fp32".

    Args:
        point: any.
    """
    batch = f"batch {point.batch}, " if point.batch > 1 else ""
    return f"{batch}T = {point.kv_len:,}, {point.dtype}"


def called(point: Point) -> str:
    """Name what was measured: the variant where there is one, else the implementation.

    Args:
        point: any.
    """
    return point.variant or point.implementation


def told(ratio: Ratio) -> str:
    """Write a ratio with its interval and verdict, such as "0.62 (0.61-0.63), faster".

    Args:
        ratio: of two times.
    """
    return f"{ratio.text}, {ratio.verdict}"


def seconds(value: float) -> str:
    """Write a duration.

    Args:
        value: in seconds.
    """
    for unit, factor in (("s", 1.0), ("ms", 1e-3)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value * 1e6:.3g} µs"


def size(value: float) -> str:
    """Write a number of bytes in binary units.

    Args:
        value: in bytes.
    """
    for unit, factor in UNITS:
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.0f} B"
