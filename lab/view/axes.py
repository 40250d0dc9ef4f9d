"""Axes: domains, ticks and tick labels that people can read from the back of a room.

Context runs over powers of two (128 … 128k), bytes over powers of two with KiB/MiB/GiB labels (or powers
of ten with kB/MB/GB), time over powers of ten. Every domain is explicit, so that a chart's spec does not
move when points arrive. An axis drawn linearly starts at zero.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lab.view.format import bytes_text, digits, seconds_text, tokens_label

TOKENS = tuple(2**power for power in range(7, 18))
MOST_TICKS = 9
BYTES, SECONDS = "bytes", "seconds"
# The domain begins a little before the first tick: a mark there is not cut in half.
_LEFT_MARGIN = 2**0.25


@dataclass(frozen=True)
class Axis:
    """One axis of a chart.

    Args:
        title: what it shows, with the unit where the tick labels do not say it.
        low: lower end of the domain.
        high: upper end of the domain.
        ticks: (position, label), in order.
        base: base of the logarithm; None for a linear axis.
        unit: of the values as drawn, such as "bytes"; empty where the title says it.
    """

    title: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    base: int | None
    unit: str = ""

    def scale(self) -> dict[str, Any]:
        """The Vega-Lite scale: the domain is explicit and never made nice."""
        scale: dict[str, Any] = {"domain": [self.low, self.high], "nice": False, "clamp": False}
        if self.base is None:
            return scale | {"type": "linear", "zero": True}
        return scale | {"type": "log", "base": self.base}

    def axis(self) -> dict[str, Any]:
        """The Vega-Lite axis with its tick values and labels."""
        return {
            "values": [value for value, _ in self.ticks],
            "labelExpr": _label_expression(self.ticks),
            "title": self.title,
        }

    def position(self, value: float) -> float:
        """Where a value lies between the ends, 0 to 1."""
        if self.base is None:
            return (value - self.low) / (self.high - self.low)
        return math.log(value / self.low) / math.log(self.high / self.low)

    def value(self, position: float) -> float:
        """The value at a place between the ends, the inverse of `position`."""
        if self.base is None:
            return self.low + position * (self.high - self.low)
        return self.low * (self.high / self.low) ** position

    def holds(self, value: float) -> bool:
        """Whether a value can be drawn."""
        return math.isfinite(value) and self.low <= value <= self.high


def tokens_axis(title: str, *, linear_up_to: int | None = None, room: float = 0.0) -> Axis:
    """Context from 128 to 128k on log2, or from 0 on a linear axis.

    Args:
        title: the axis title.
        linear_up_to: the largest context of a linear axis; None for the logarithmic one.
        room: part of the axis kept free on the right for direct labels, 0 to 0.5.
    """
    if linear_up_to is not None:
        eighth = linear_up_to / 8
        ticks = tuple((eighth * place, tokens_label(round(eighth * place))) for place in range(0, 9, 2))
        return Axis(title, 0, linear_up_to / (1 - room), ticks, None)
    return _with_room(title, TOKENS, tokens_label, room)


def counts_axis(
    title: str, counts: Sequence[int], *, linear_up_to: int | None = None, room: float = 0.0
) -> Axis:
    """Batches, or any other count over powers of two, on log2 or from zero.

    Args:
        title: the axis title.
        counts: the ticks of the logarithmic axis, in order.
        linear_up_to: the largest count of a linear axis; None for the logarithmic one.
        room: part of the axis kept free on the right for direct labels, 0 to 0.5.
    """
    if linear_up_to is not None:
        step = _count_step(linear_up_to)
        ticks = tuple((float(tick), str(tick)) for tick in range(0, linear_up_to + 1, step))
        return Axis(title, 0, linear_up_to / (1 - room), ticks, None)
    return _with_room(title, counts, str, room)


def _count_step(most: int) -> int:
    """A step of which at most eight reach the largest count: a power of two where eight of them do, else
    round."""
    eighth = most // 8
    if most % 8 == 0 and eighth & (eighth - 1) == 0:
        return max(1, eighth)
    return next(part * 10**power for power in range(20) for part in (1, 2, 5) if most <= 8 * part * 10**power)


def bytes_axis(title: str, values: Iterable[float], *, binary: bool, linear: bool = False) -> Axis:
    """Bytes that hold every value given, on log2 with KiB/MiB/GiB labels or on log10 with kB/MB/GB labels.

    Args:
        title: the axis title.
        values: what will be drawn; values of zero and below are left out of a logarithmic domain.
        binary: KiB, MiB, GiB rather than kB, MB, GB.
        linear: start at zero instead.
    """
    if linear:
        return _linear_axis(
            title, max(values), 1024 if binary else 1000, lambda v: bytes_text(v, binary), BYTES
        )
    low, high = _ends(values)
    base = 2 if binary else 10
    return _log_axis(title, low, high, base, lambda v: bytes_text(v, binary), BYTES)


def seconds_axis(title: str, values: Iterable[float], *, linear: bool = False) -> Axis:
    """Seconds that hold every value given, on log10 or from zero.

    Args:
        title: the axis title.
        values: what will be drawn, in seconds.
        linear: start at zero instead.
    """
    if linear:
        return _linear_axis(title, max(values), 1000, seconds_text, SECONDS)
    low, high = _ends(values)
    return _log_axis(title, low, high, 10, _round_seconds, SECONDS)


def _round_seconds(seconds: float) -> str:
    """Ticks at powers of ten stay in seconds beyond a minute: 1,000 s, not 16.7 min."""
    return seconds_text(seconds) if seconds < 60 else f"{digits(seconds)} s"


def _with_room(title: str, ticks: Sequence[int], label: Any, room: float) -> Axis:
    low, high = ticks[0] / _LEFT_MARGIN, ticks[-1]
    end = low * (high / low) ** (1 / (1 - room))
    return Axis(title, low, end, tuple((tick, label(tick)) for tick in ticks), 2)


def _ends(values: Iterable[float]) -> tuple[float, float]:
    drawn = [value for value in values if value > 0 and math.isfinite(value)]
    if not drawn:
        raise ValueError("an axis needs at least one value above zero")
    return min(drawn), max(drawn)


def _log_axis(title: str, low: float, high: float, base: int, label: Any, unit: str) -> Axis:
    first, last = math.floor(math.log(low, base) + 1e-9), math.ceil(math.log(high, base) - 1e-9)
    first -= float(base) ** first > low  # the logarithm rounds
    last += float(base) ** last < high
    last = max(last, first + 1)
    # Binary ticks stand at 1, 32 and 1,024 units: their labels stay short.
    steps = (1, 2, 5, 10) if base == 2 else (1, 3, 6)
    step = next((step for step in steps if (last - first) / step <= MOST_TICKS), steps[-1])
    powers = [power for power in range(first, last + 1) if power % step == 0]
    ticks = tuple((float(base) ** power, label(float(base) ** power)) for power in powers)
    return Axis(title, float(base) ** first, float(base) ** last, ticks, base, unit)


def _linear_axis(title: str, high: float, thousand: int, label: Any, unit: str) -> Axis:
    """Four to eight round steps of the unit that the largest value is written in."""
    size = float(thousand) ** math.floor(math.log(high, thousand))
    step = size * 10.0 ** math.floor(math.log10(high / size))
    step = next(step * part for part in (0.2, 0.25, 0.5, 1, 2, 5) if high / (step * part) <= 7)
    count = math.ceil(high / step)
    ticks = tuple((step * place, label(step * place) if place else "0") for place in range(count + 1))
    return Axis(title, 0, step * count, ticks, None, unit)


def _label_expression(ticks: Sequence[tuple[float, str]]) -> str:
    """A Vega expression that gives each tick its label."""
    choices = (f"datum.value === {json.dumps(value)} ? {json.dumps(label)} : " for value, label in ticks)
    return "".join(choices) + "''"
