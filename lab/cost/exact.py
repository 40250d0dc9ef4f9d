"""Exact counts: whole numbers checked on the way in, and no silent wrap-around on the way out.

Every formula in lab.cost counts things, so its arguments are positive whole numbers and so is its result.
Scalars are Python integers of any size. Arrays are computed in int64 where every element of the result fits;
where one does not, the whole array is float64 and an `InexactResultWarning` says so (`is_exact` tells later).
"""

import math
import warnings
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np

Count = int | np.ndarray
"""A whole number, or an integer array of them."""

Number = int | float | Fraction
"""What a storage size per element may be: 2, 0.5, Fraction(34, 32)."""

INT64_MAX = 2**63 - 1
# Floats closer than this to the int64 limit are decided with Python integers instead.
_FLOAT_DOUBT = 1e-9
# A float such as 0.1 has a denominator of 2**55: it was not meant exactly and would make a count meaningless.
_LARGEST_DENOMINATOR = 4096


class InexactResultWarning(UserWarning):
    """An array result exceeded int64 and is returned as float64, rounded to 53 bits."""


def is_exact(result: Any) -> bool:
    """Say whether a result of lab.cost is exact: an integer or integer array, not rounded float64.

    Args:
        result: a scalar or array returned by a formula.

    Returns:
        True when every digit of the result is right.
    """
    if isinstance(result, np.ndarray | np.generic):
        return bool(np.issubdtype(result.dtype, np.integer))
    return isinstance(result, int) and not isinstance(result, bool)


def count(name: str, value: Any) -> Count:
    """Check one argument that counts something.

    Args:
        name: the argument's name, for the message.
        value: a whole number of at least 1, or an array or sequence of them.

    Returns:
        A Python int, or an int64 array.

    Raises:
        ValueError: names the argument, the value and what is allowed.
    """
    if type(value) is int:
        if value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        return value
    if isinstance(value, np.ndarray | list | tuple) and np.ndim(value) > 0:
        return _count_array(name, np.asarray(value))
    if isinstance(value, np.integer) or (isinstance(value, np.ndarray) and value.dtype.kind in "iu"):
        return count(name, int(value))
    raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")


def _count_array(name: str, values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers of at least 1, got an array of {values.dtype}")
    if values.size and values.min() < 1:
        raise ValueError(f"{name} must be whole numbers of at least 1, got {values.min()} in the array")
    if values.size and int(values.max()) > INT64_MAX:
        raise ValueError(
            f"{name} in an array must be at most 2**63 - 1, got {values.max()}; use Python integers"
        )
    return values.astype(np.int64, copy=False)


def flag(name: str, value: Any) -> bool:
    """Check a yes-or-no argument.

    Args:
        name: the argument's name, for the message.
        value: True or False.

    Returns:
        The value as a Python bool.

    Raises:
        ValueError: the value is neither True nor False.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def byte_ratio(name: str, value: Any) -> tuple[Count, int]:
    """Check a storage size per element and split it into whole numbers.

    Args:
        name: the argument's name, for the message.
        value: bytes per element: an integer (or integer array), a Fraction, or a float that is a simple one.

    Returns:
        Numerator and denominator, so that bytes = elements · numerator / denominator without rounding.

    Raises:
        ValueError: not positive and finite, or a float such as 0.1 that stands for no simple fraction.
    """
    if isinstance(value, Fraction) or (isinstance(value, float | np.floating) and math.isfinite(value)):
        ratio = Fraction(value) if isinstance(value, Fraction) else Fraction(float(value))
        if ratio <= 0:
            raise ValueError(f"{name} must be more than 0, got {value!r}")
        if ratio.denominator > _LARGEST_DENOMINATOR:
            raise ValueError(
                f"{name} must be exact: {value!r} is no simple fraction, pass fractions.Fraction"
            )
        return ratio.numerator, ratio.denominator
    if isinstance(value, float | np.floating):
        raise ValueError(f"{name} must be a finite number of bytes, got {value!r}")
    return count(name, value), 1


def evaluate(
    formula: Callable[..., Any],
    *arguments: Count,
    headroom: int = 2,
    bound: Callable[..., Any] | None = None,
) -> Count:
    """Evaluate an integer formula on scalars or broadcast arrays without wrap-around.

    The formula must grow with each argument, so that its value at the largest of each bounds the result; for
    one that does not, `bound` is a formula that grows and is never below it.

    Args:
        formula: uses only + - * // % and numpy functions that also take Python integers.
        arguments: checked counts, from `count`.
        headroom: how many times its result an intermediate of the formula can reach.
        bound: what bounds the result; None for the formula itself.

    Returns:
        A Python int when all arguments are; else int64 where every element fits, float64 where one does not.

    Raises:
        ValueError: an integer beyond float64 beside an array.
    """
    if not any(isinstance(argument, np.ndarray) for argument in arguments):
        return formula(*arguments)
    largest = [_largest(argument) for argument in arguments]
    fit = max(largest) <= INT64_MAX
    if fit and (bound or formula)(*largest) * headroom <= INT64_MAX:
        return np.asarray(formula(*arguments), dtype=np.int64)
    rounded = np.asarray(formula(*(real("an argument", argument) for argument in arguments)))
    peak = float(rounded.max()) if rounded.size else 0.0
    if fit and peak * headroom < INT64_MAX * (1 - _FLOAT_DOUBT):
        return np.asarray(formula(*arguments), dtype=np.int64)
    if peak < INT64_MAX * (1 + _FLOAT_DOUBT):
        whole = np.asarray(formula(*(np.asarray(argument, dtype=object) for argument in arguments)))
        if max(whole.flat) <= INT64_MAX:
            return whole.astype(np.int64)
    warnings.warn(
        "a result exceeds int64 (9.2e18): the array is float64, rounded to 53 bits; scalars stay exact",
        InexactResultWarning,
        stacklevel=3,
    )
    return rounded


def smaller(one: Any, other: Any) -> Any:
    """Give the smaller of two numbers, element by element where one is an array."""
    return np.minimum(one, other) if np.ndim(one) or np.ndim(other) else min(one, other)


def total(counts: Iterable[Count]) -> Count:
    """Add counts as `evaluate` does: exact, without wrap-around.

    Args:
        counts: results of lab.cost, scalars or arrays that broadcast.

    Returns:
        Their sum; 0 of none.
    """
    found = list(counts)
    return evaluate(lambda *terms: sum(terms), *found) if found else 0


def real(name: str, value: Any) -> np.ndarray:
    """Turn counts into float64, where a formula has to divide.

    Args:
        name: the argument's name, for the message.
        value: a count or an array of them.

    Returns:
        An array of float64.

    Raises:
        ValueError: an integer beyond float64.
    """
    try:
        return np.asarray(value, dtype=np.float64)
    except OverflowError:
        raise ValueError(
            f"{name} is too large for a ratio: it must be below 2**1024, got {_size(value)}"
        ) from None


def _size(value: Any) -> str:
    return f"a number of {value.bit_length()} bits" if isinstance(value, int) else "a larger number"


def _largest(argument: Count) -> int:
    if isinstance(argument, np.ndarray):
        return int(argument.max()) if argument.size else 1
    return argument
