"""Printed numbers: what a figure on a page pins down, and what follows from it.

A printed 2.05 stands for every number that rounds to it, 2.045 to 2.055. Whatever is computed from printed
numbers is therefore an interval too, and only a disjoint interval contradicts another printed number.
Fractions throughout, so that a tie (2.25 printed as 2.3) is decided exactly.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from itertools import product
from typing import NamedTuple

Number = int | float | Fraction

UNITS: dict[str, Fraction] = {
    "": Fraction(1),
    "×": Fraction(1),
    "%": Fraction(1, 100),
    "KiB": Fraction(2**10),
    "MiB": Fraction(2**20),
    "GiB": Fraction(2**30),
    "MB": Fraction(10**6),
    "GB": Fraction(10**9),
    "GB/s": Fraction(10**9),
    "GFLOPs": Fraction(10**9),
    "TFLOPs": Fraction(10**12),
    "TFLOP/s": Fraction(10**12),
    "ms": Fraction(1, 1000),
    "µs": Fraction(1, 10**6),
    "million": Fraction(10**6),
    "billion": Fraction(10**9),
}
"""How many SI base units (bytes, FLOPs, seconds, pure numbers) one printed unit is."""

COUNTED_UNITS = {
    *("tokens", "sequences", "pairs", "elements", "tensors", "heads", "passes", "implementations"),
    *("backends", "FLOPs", "bytes", "exponent", "absolute error", "compute capability"),
}
"""Units that name what is counted and scale nothing."""


class Interval(NamedTuple):
    """A number known to lie between two others: `value` is the nominal one."""

    value: Fraction
    low: Fraction
    high: Fraction

    def scaled(self, factor: Fraction) -> "Interval":
        """Multiply by a positive factor, as a change of unit does."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)


def exactly(number: Number) -> Interval:
    """Take a number as known without rounding.

    Args:
        number: an exact count or a float taken at face value.

    Returns:
        An interval of no width.
    """
    value = Fraction(number)
    return Interval(value, value, value)


def unit_scale(unit: str) -> Fraction:
    """Look up how many base units a printed unit stands for.

    Args:
        unit: a key of `UNITS` or a member of `COUNTED_UNITS`.

    Returns:
        Base units (bytes, FLOPs, seconds) in one printed unit.

    Raises:
        ValueError: an unknown unit.
    """
    if unit in COUNTED_UNITS:
        return Fraction(1)
    if unit not in UNITS:
        raise ValueError(f"unit must be one of {', '.join([*UNITS, *sorted(COUNTED_UNITS)])}, got {unit!r}")
    return UNITS[unit]


@dataclass(frozen=True)
class Figure:
    """One printed number and how far from it the truth may lie, both in the printed unit."""

    printed: str  # with the digits as printed: "2.0" is not "2"; "5.5e2" has two significant digits
    half_width: Fraction

    @property
    def value(self) -> float:
        """The printed number."""
        return float(Decimal(self.printed))

    @property
    def interval(self) -> Interval:
        """Everything the print allows."""
        value = Fraction(Decimal(self.printed))
        return Interval(value, value - self.half_width, value + self.half_width)


def read_figure(printed: str, *, about: bool = False, half_width: str | None = None) -> Figure:
    """Read a number with the precision its digits carry.

    Args:
        printed: the digits, in plain or scientific notation.
        about: the source marks it as approximate: a whole unit of the last digit instead of half of one.
        half_width: a stated precision in place of the digits' own, for fractions given in words.

    Returns:
        The figure with its half width.

    Raises:
        ValueError: not a finite decimal number.
    """
    try:
        exponent = Decimal(printed).as_tuple().exponent
    except InvalidOperation:
        raise ValueError(f"printed must be a decimal number, got {printed!r}") from None
    if not isinstance(exponent, int):
        raise ValueError(f"printed must be a finite number, got {printed!r}")
    if half_width is not None:
        return Figure(printed, Fraction(Decimal(half_width)))
    return Figure(printed, Fraction(10) ** exponent / (1 if about else 2))


def corners(formula: Callable[..., Number], *arguments: Interval) -> Interval:
    """Carry the rounding of printed inputs through a formula that is monotone in each of them.

    Args:
        formula: takes one number per argument.
        arguments: the printed inputs as intervals, at most ten.

    Returns:
        The nominal result with the least and the greatest that the inputs allow.
    """
    nominal = Fraction(formula(*(argument.value for argument in arguments)))
    ends = product(*({argument.low, argument.high} for argument in arguments))
    results = [Fraction(formula(*end)) for end in ends]
    return Interval(nominal, min(results), max(results))
