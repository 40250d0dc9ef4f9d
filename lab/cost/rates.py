"""Measured or stated figures of a device, each with its source: one value, or a curve over sizes."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

Figure = TypeVar("Figure")


@dataclass(frozen=True)
class Constant:
    """One figure that a prediction rests on.

    Args:
        value: a finite number above 0.
        unit: such as "bytes/s", "FLOP/s", "s"; "1" for a ratio.
        source: the data sheet, the printed sentence, the cell or the micro-benchmark it comes from.

    Raises:
        ValueError: a value that is not a number above 0, or no source.
    """

    value: float
    unit: str
    source: str

    def __post_init__(self) -> None:
        """Check the value and that a source is stated."""
        object.__setattr__(self, "value", _positive("value", self.value))
        if not self.source.strip():
            raise ValueError("source must say where the figure comes from, got an empty text")

    def to_dict(self) -> dict[str, Any]:
        """Return the constant as JSON values."""
        return {"value": self.value, "unit": self.unit, "source": self.source}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Constant:
        """Read a constant back from JSON values.

        Raises:
            ValueError: a missing field or a bad value.
        """
        return cls(_field(values, "value"), str(_field(values, "unit")), str(_field(values, "source")))


@dataclass(frozen=True)
class Curve:
    """A rate that depends on the size of the work: straight lines between the measured sizes on log axes.

    Outside the measured sizes the nearest measured rate holds.

    Args:
        points: (size, rate) with sizes in rising order.
        size_unit: what a size counts, such as "bytes" or "elements".
        unit: of the rate.
        source: where the points come from.

    Raises:
        ValueError: no point, sizes not rising, a figure that is not above 0.
    """

    points: tuple[tuple[float, float], ...]
    size_unit: str
    unit: str
    source: str

    def __post_init__(self) -> None:
        """Check the points."""
        points = tuple((_positive("size", size), _positive("rate", rate)) for size, rate in self.points)
        if not points:
            raise ValueError("points must hold at least one (size, rate), got none")
        sizes = [size for size, _ in points]
        if any(later <= earlier for earlier, later in itertools.pairwise(sizes)):
            raise ValueError(f"points must have rising sizes, got {sizes}")
        if not self.source.strip():
            raise ValueError("source must say where the figures come from, got an empty text")
        object.__setattr__(self, "points", points)

    def at(self, size: float) -> float:
        """Read the rate at a size.

        Args:
            size: above 0, in `size_unit`.

        Returns:
            The rate in `unit`.
        """
        return _interpolate(self.points, size)

    def without(self, size: float) -> Curve:
        """Return the curve without its point at a size; the curve itself where it has none, or only that."""
        rest = tuple(point for point in self.points if point[0] != size)
        return replace(self, points=rest) if rest else self

    def to_dict(self) -> dict[str, Any]:
        """Return the curve as JSON values."""
        return {
            "points": [list(point) for point in self.points],
            "size_unit": self.size_unit,
            "unit": self.unit,
            "source": self.source,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Curve:
        """Read a curve back from JSON values.

        Raises:
            ValueError: a missing field or a bad value.
        """
        points = _field(values, "points")
        if not isinstance(points, list) or any(
            not isinstance(point, list) or len(point) != 2 for point in points
        ):
            raise ValueError(f"points must be a list of [size, rate], got {points!r}")
        texts = (str(_field(values, name)) for name in ("size_unit", "unit", "source"))
        return cls(tuple((size, rate) for size, rate in points), *texts)


def read_table(values: Any, name: str, read: Callable[[Mapping[str, Any]], Figure]) -> dict[str, Figure]:
    """Read a JSON object whose members are constants or curves.

    Args:
        values: the JSON value.
        name: what it is called, for the message.
        read: `Constant.from_dict` or `Curve.from_dict`.

    Returns:
        The members by name.

    Raises:
        ValueError: not an object, or a bad member.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"{name} must be an object, got {values!r}")
    return {str(key): read(value) for key, value in values.items()}


def _interpolate(points: Sequence[tuple[float, float]], size: float) -> float:
    size = _positive("size", size)
    index = bisect_left(points, (size,))
    if index == 0:
        return points[0][1]
    if index == len(points):
        return points[-1][1]
    (low, low_rate), (high, high_rate) = points[index - 1], points[index]
    part = math.log(size / low) / math.log(high / low)
    return math.exp(math.log(low_rate) + part * math.log(high_rate / low_rate))


def _positive(name: str, value: Any) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value <= 0
    ):
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}")
    return float(value)


def _field(values: Mapping[str, Any], name: str) -> Any:
    if not isinstance(values, Mapping) or name not in values:
        raise ValueError(f"{name} is missing in {values!r}")
    return values[name]
