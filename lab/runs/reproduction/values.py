"""What is read from runs for a claim: its values beside the print, or an outcome in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from lab.cost.claims.printed import Figure, unit_scale
from lab.cost.evidence import Claim
from lab.runs.comparison import Ratio
from lab.runs.point import Point
from lab.runs.run import Run

SAME, SIDE, OTHER = "same figure here", "same direction here", "another figure here"
SUPPORTED, UNSUPPORTED, OPEN = "supported here", "not supported here", "open here"
MEASURED = "measured here"
DOUBLED = (1, 2, 4)
"""Lengths that an exponent is fitted over, as multiples of the first one."""
PAIRED_BY = ("batch", "dtype")
"""What two points have in common when one is held against the other, beside what is asked for."""
OUTCOMES = (SAME, SIDE, OTHER, SUPPORTED, UNSUPPORTED, OPEN, MEASURED)
"""What a run can say: of a printed figure the first three, of a statement the next, of a gap the last."""


@dataclass(frozen=True)
class Value:
    """One quantity of a claim as measured here, in the claim's unit.

    Args:
        label: what it is.
        value: the measured number.
        low: lower end of its spread.
        high: upper end.
        printed: the claim's figure; None where the claim prints none.
    """

    label: str
    value: float
    low: float
    high: float
    printed: Figure | None = None

    @property
    def agrees(self) -> bool:
        """Whether the print allows a value in the measured spread."""
        if self.printed is None:
            return False
        bound = self.printed.interval
        return Fraction(self.high) >= bound.low and Fraction(self.low) <= bound.high


@dataclass(frozen=True)
class Reproduction:
    """A claim beside what this machine measured.

    Args:
        values: the measured quantities, in the order of the claim's figures where it has any.
        outcome: one of OUTCOMES.
        says: what a comparison found, in words; empty where the values say it.
    """

    values: tuple[Value, ...]
    outcome: str
    says: str = ""


class Seen:
    """The runs of one device, asked for points."""

    def __init__(self, runs: Sequence[Run]) -> None:
        """Take the runs, the newest first."""
        self._runs = runs

    def find(self, **wanted: Any) -> Point | None:
        """Find the newest point with these fields; a tuple allows several values, the best first."""
        for run in self._runs:
            fitting = [point for point in run.points if _fits(point, wanted)]
            if fitting:
                return min(fitting, key=lambda point: _rank(point, wanted))
        return None

    def pair(
        self, first: dict[str, Any], second: dict[str, Any], **common: Any
    ) -> tuple[Point, Point] | None:
        """Find two points to be compared: both of one run, the newest that holds such a pair.

        Args:
            first: fields of the first alone.
            second: fields of the second alone.
            common: fields of both; a tuple allows several values, the best first, and both have the same one.

        Returns:
            The points, of equal batch and number type; None where no run holds both.
        """
        same = (*PAIRED_BY, *common)
        for run in self._runs:
            seconds = [point for point in run.points if _fits(point, common | second)]
            pairs = [
                (point, other)
                for point in run.points
                if _fits(point, common | first)
                for other in seconds
                if all(getattr(point, name) == getattr(other, name) for name in same)
            ]
            if pairs:
                return min(pairs, key=lambda pair: _rank(pair[0], common))
        return None

    def lengths(self, first: int, **wanted: Any) -> list[Point]:
        """Find timed points at two or more lengths, all of one run, implementation and type, shortest first.

        Args:
            first: the shortest length that counts.
            wanted: as for `find`.
        """
        for run in self._runs:
            series: dict[tuple[str, str], dict[int, Point]] = {}
            for point in run.points:
                if _fits(point, wanted) and point.timing and point.kv_len >= first:
                    series.setdefault((point.implementation, point.dtype), {})[point.kv_len] = point
            long = [found for found in series.values() if len(found) > 1]
            if long:
                best = min(long, key=lambda found: _rank(next(iter(found.values())), wanted))
                return [best[length] for length in sorted(best)]
        return []

    def points(self, experiment: str) -> list[Point]:
        """Give the points of the newest run that holds any of an experiment."""
        for run in self._runs:
            found = [point for point in run.points if point.experiment == experiment]
            if found:
                return found
        return []


def _rank(point: Point, wanted: dict[str, Any]) -> list[int]:
    """Places of a fitting point's fields among the values that are allowed."""
    return [value.index(getattr(point, name)) for name, value in wanted.items() if isinstance(value, tuple)]


def _fits(point: Point, wanted: dict[str, Any]) -> bool:
    if point.status not in ("ok", "noisy"):
        return False
    for name, value in wanted.items():
        found = getattr(point, name)
        if found not in value if isinstance(value, tuple) else found != value:
            return False
    return True


Measured = tuple[str, float, float, float]
"""A label, a value in SI units, and the ends of its spread."""
Found = list[Value] | tuple[str, str] | None
"""Values, or an outcome in words, or nothing measured."""


def values(claim: Claim, found: list[Measured | None]) -> list[Value] | None:
    """Pair what was measured, in SI units, with the claim's figures; what was not measured is left out.

    One figure that is printed for several labels stands beside each of them.
    """
    scale = float(unit_scale(claim.unit))
    shared = claim.figures * len(found) if len(claim.figures) == 1 < len(claim.labels) else claim.figures
    figures = [*shared, *[None] * len(found)]
    paired = [
        Value(one[0], one[1] / scale, one[2] / scale, one[3] / scale, figure)
        for one, figure in zip(found, figures, strict=False)
        if one is not None
    ]
    return paired or None


def time(label: str, point: Point | None) -> Measured | None:
    """A median with its quartiles, in seconds; None where nothing was timed."""
    if point is None or point.timing is None:
        return None
    timing = point.timing
    low, high = (timing.median_s if end is None else end for end in (timing.q1_s, timing.q3_s))
    return label, timing.median_s, low, high


def exact(label: str, value: float | None) -> Measured | None:
    """A number without a spread; None where there is none."""
    return None if value is None else (label, value, value, value)


def ratio(label: str, found: Ratio) -> Measured:
    """A ratio with its interval."""
    return label, found.value, found.low or found.value, found.high or found.value


def lengths_of(claim: Claim) -> tuple[int, ...]:
    """The lengths that a claim is about, in tokens; empty where it names none."""
    named = re.search(r"_t(\d+)$", claim.id)
    if named:
        return (int(named[1]),)
    digits = [label.replace(",", "") for label in claim.labels]
    if digits and all(map(str.isdigit, digits)):
        return tuple(int(label) for label in digits)
    if "columns" in claim.inputs:
        return tuple(claim.inputs["first"] * factor for factor in DOUBLED)
    asked = claim.inputs.get("tokens", ())
    return (asked,) if isinstance(asked, int) else tuple(asked)


def batches_of(claim: Claim) -> tuple[int, ...]:
    """The batches that a claim is about; empty where it names none."""
    named = re.search(r"_b(\d+)_", claim.id)
    return (int(named[1]),) if named else tuple(claim.inputs.get("batches", ()))
