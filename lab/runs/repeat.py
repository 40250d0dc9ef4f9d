"""One of several processes that timed the same cell: what it alone saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from lab.runs.checks import Check, Record, optional, seconds, whole


@dataclass(frozen=True)
class Repeat(Record):
    """The time of one call as one process saw it.

    Args:
        median_s: median over its samples, in seconds.
        q1_s: first quartile, in seconds; None where there are no samples.
        q3_s: third quartile, in seconds.
        n: number of its samples.
    """

    median_s: float
    q1_s: float | None
    q3_s: float | None
    n: int

    CHECKS: ClassVar[Mapping[str, Check]] = {
        "median_s": seconds,
        "q1_s": optional(seconds),
        "q3_s": optional(seconds),
        "n": whole(),
    }
