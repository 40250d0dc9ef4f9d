"""Axes of quantities that are neither tokens, bytes nor seconds: FLOPs and rates, plain ratios, errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from lab.view.axes import MOST_TICKS, Axis
from lab.view.format import digits, scaled

_STEPS = (1, 2, 5, 10)


def counts_of(title: str, values: Iterable[float], unit: str, *, linear: bool = False) -> Axis:
    """FLOPs or FLOP/s that hold every value given, on log10 or from zero.

    Args:
        title: the axis title.
        values: what will be drawn; values of zero and below are left out of a logarithmic domain.
        unit: "FLOPs" or "FLOP/s".
        linear: start at zero instead.

    Raises:
        ValueError: no value above zero.
    """
    drawn = _drawn(values)
    if not linear:
        return _powers(title, min(drawn), max(drawn), lambda value: scaled(value, unit), unit)
    step = _round_step(max(drawn))
    count = math.ceil(max(drawn) / step)
    ticks = tuple((step * place, scaled(step * place, unit) if place else "0") for place in range(count + 1))
    return Axis(title, 0, step * count, ticks, None, unit)


def ratios(title: str, values: Iterable[float]) -> Axis:
    """Plain ratios from zero, such as causal over full.

    Args:
        title: the axis title.
        values: what will be drawn.

    Raises:
        ValueError: no value above zero.
    """
    high = max(_drawn(values))
    step = _round_step(high)
    count = math.ceil(high / step)
    ticks = tuple((step * place, digits(step * place)) for place in range(count + 1))
    return Axis(title, 0, step * count, ticks, None, "ratio")


def errors(title: str, values: Iterable[float]) -> Axis:
    """Errors on log10, labelled as powers of ten.

    Args:
        title: the axis title.
        values: what will be drawn.

    Raises:
        ValueError: no value above zero.
    """
    drawn = _drawn(values)
    return _powers(title, min(drawn), max(drawn), lambda value: f"{value:.0e}".replace("e-0", "e-"), "")


def _drawn(values: Iterable[float]) -> list[float]:
    drawn = [value for value in values if value > 0 and math.isfinite(value)]
    if not drawn:
        raise ValueError("an axis needs at least one value above zero")
    return drawn


def _powers(title: str, low: float, high: float, label: Callable[[float], str], unit: str) -> Axis:
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    last = max(last, first + 1)
    step = next((step for step in (1, 3, 6) if (last - first) / step <= MOST_TICKS), 6)
    powers = [power for power in range(first, last + 1) if power % step == 0]
    ticks = tuple((10.0**power, label(10.0**power)) for power in powers)
    return Axis(title, 10.0**first, 10.0**last, ticks, 10, unit)


def _round_step(high: float) -> float:
    """A round step of which four to eight reach the largest value."""
    unit = 10.0 ** math.floor(math.log10(high)) / 10
    steps = (unit * step * scale for scale in (1, 10) for step in _STEPS)
    return next(step for step in steps if high / step <= 8)
