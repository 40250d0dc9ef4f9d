"""Trials of the clock: one kernel timed as two variants, which must be told to be equally fast.

Whatever differs between the two is the protocol's own error. The same trials beside a competing process show
whether a disturbed time is thrown away or marked, and never passed off as a good one. No torch here.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lab.runs.comparison import NOT_JUDGED, TIE, Ratio, ratio_of
from lab.runs.point import Point

MOST_DIFFERENCE = 0.015
"""Nine of ten fake differences stay below this on a quiet machine."""
FEWEST_TIES = 0.90
FEWEST_CLEAN = 0.90  # of the trials, else the machine was not quiet and nothing is judged
SILENT_SHARE = 0.05  # further off the quiet time than this without a mark is a false time

Cell = tuple[str, int]


@dataclass(frozen=True)
class Trial:
    """One kernel, timed as two variants of the same rounds.

    Args:
        first: the point of the one.
        second: the point of the other.
    """

    first: Point
    second: Point

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Trial:
        """Read a trial as the measuring process tells it.

        Args:
            data: with the points "first" and "second".

        Raises:
            ValueError: a value is not allowed.
        """
        return cls(Point.from_dict(data["first"]), Point.from_dict(data["second"]))

    @property
    def points(self) -> tuple[Point, Point]:
        """Both points."""
        return self.first, self.second

    @property
    def cell(self) -> Cell:
        """What was timed: implementation and length."""
        return self.first.implementation, self.first.kv_len

    @property
    def clean(self) -> bool:
        """Whether neither point is marked."""
        return all(point.status == "ok" for point in self.points)

    @cached_property
    def ratio(self) -> Ratio:
        """The first time over the second, by the lab's own comparison.

        Raises:
            ValueError: one of them was not timed.
        """
        found = ratio_of(self.first, self.second, paired=True)
        if found is None:
            raise ValueError(f"{self.first.implementation} at T = {self.first.kv_len:,} was not timed")
        return found

    @property
    def judged(self) -> bool:
        """Whether it has samples enough for a verdict.

        Raises:
            ValueError: one of the points was not timed.
        """
        return self.ratio.verdict != NOT_JUDGED

    @property
    def difference(self) -> float:
        """How far the ratio lies from one."""
        return abs(self.ratio.value - 1)


@dataclass(frozen=True)
class Null:
    """What trials without a disturbance say of the clock.

    Args:
        trials: how many were made.
        clean: how many of them are not marked noisy.
        unjudged: how many of the clean ones have too few samples for a verdict; the figures are of the others.
        median: of the fake differences.
        p90: which nine of ten do not exceed.
        most: the largest.
        ties: share of verdicts "too close to call".
    """

    trials: int
    clean: int
    unjudged: int
    median: float
    p90: float
    most: float
    ties: float

    @property
    def quiet(self) -> bool:
        """Whether so few trials are marked, or have too few samples, that the figures can be judged."""
        return self.clean - self.unjudged >= max(1.0, FEWEST_CLEAN * self.trials)

    @property
    def met(self) -> bool:
        """Whether both limits are kept."""
        return self.p90 <= MOST_DIFFERENCE and self.ties >= FEWEST_TIES

    @property
    def verdict(self) -> str:
        """The limits, in words."""
        limits = (
            f"nine of ten within {self.p90:.2%} (limit {MOST_DIFFERENCE:.1%}), "
            f"{self.ties:.0%} too close to call (at least {FEWEST_TIES:.0%})"
        )
        disturbed = self.trials - self.clean
        if not self.clean:
            return f"not judged: all {self.trials} trials were disturbed"
        short = f"{NOT_JUDGED} in {self.unjudged} of {self.trials} trials"
        if self.unjudged == self.clean:
            return short
        if self.quiet:
            return f"{'met' if self.met else 'MISSED'}: {limits}{f'; {short}' if self.unjudged else ''}"
        why = f"not judged: {disturbed} of {self.trials} trials were disturbed"
        return f"{f'{short}, {disturbed} disturbed' if self.unjudged else why}; the others: {limits}"


def null_of(trials: Iterable[Trial]) -> Null:
    """Summarise trials.

    Args:
        trials: of any cells.

    Returns:
        The figures; where no clean trial can be judged they are 0, with none tied.
    """
    every = list(trials)
    clean = [trial for trial in every if trial.clean]
    judged = [trial for trial in clean if trial.judged]
    counts = len(every), len(clean), len(clean) - len(judged)
    if not judged:
        return Null(*counts, 0.0, 0.0, 0.0, 0.0)
    differences = [trial.difference for trial in judged]
    ties = sum(trial.ratio.verdict == TIE for trial in judged) / len(judged)
    median, p90 = (float(value) for value in np.percentile(differences, (50, 90)))
    return Null(*counts, median, p90, max(differences), ties)


@dataclass(frozen=True)
class Disturbed:
    """What became of points timed beside a competing process.

    Args:
        points: how many were timed.
        noisy: marked as noisy.
        gated: not marked, after blocks were thrown away.
        untouched: neither: no block was found disturbed.
        off: further off the quiet times than SILENT_SHARE, marked or not.
        silent: those of them that are not marked, each with its deviation in words.
        quiet_spread: the largest over the least time of a cell in quiet, less one, of the cell where it is largest.
    """

    points: int
    noisy: int
    gated: int
    untouched: int
    off: int
    silent: tuple[str, ...]
    quiet_spread: float

    @property
    def verdict(self) -> str:
        """Whether a false time was passed off as a good one, in words."""
        if not self.points:
            return "not judged: no cell has a quiet time to compare with"
        word = "MISSED" if self.silent else "met"
        return (
            f"{word}: {len(self.silent)} of {self.points} points silently off by over {SILENT_SHARE:.0%} "
            f"(limit 0); {self.noisy} marked noisy, {self.gated} with blocks discarded, "
            f"{self.untouched} undisturbed, {self.off} off by over {SILENT_SHARE:.0%} in all; quiet passes alone "
            f"differ by up to {self.quiet_spread:.0%}, and off is what lies beyond all of them"
        )


def quiet_seconds(trials: Iterable[Trial]) -> dict[Cell, float]:
    """Give the time of each cell on a quiet machine.

    Args:
        trials: without a disturbance.

    Returns:
        By cell, the median over the clean trials; cells without one are left out.
    """
    return {cell: statistics.median(times) for cell, times in _clean_times(trials).items()}


def quiet_ranges(trials: Iterable[Trial]) -> dict[Cell, tuple[float, float]]:
    """Give between which times each cell lies in quiet.

    A virtual machine's speed can have two states: on a small server the fused kernel at T = 256 takes 1.2 or 1.4 ms
    for seconds or minutes at a time, whether others compute or not (`python -m lab null`). One quiet pass shows one.

    Args:
        trials: of quiet passes, as near to the disturbed ones as may be.

    Returns:
        By cell, the least and the largest time of a point of a clean trial; cells without one are left out.
    """
    return {cell: (min(times), max(times)) for cell, times in _clean_times(trials).items()}


def _clean_times(trials: Iterable[Trial]) -> dict[Cell, list[float]]:
    found: dict[Cell, list[float]] = {}
    for trial in trials:
        for point in trial.points:
            if trial.clean and point.timing is not None:
                found.setdefault(trial.cell, []).append(point.timing.median_s)
    return found


def disturbed_of(trials: Sequence[Trial], quiet_s: Mapping[Cell, tuple[float, float]]) -> Disturbed:
    """Judge trials beside a competing process.

    Args:
        trials: disturbed ones.
        quiet_s: between which times each cell lies without; other cells are left out.

    Returns:
        The counts.
    """
    noisy = gated = untouched = off = 0
    silent = []
    points = [
        (trial.cell, point.status != "ok", point.timing)
        for trial in trials
        for point in trial.points
        if trial.cell in quiet_s and point.timing is not None
    ]
    for cell, marked, timing in points:
        noisy += marked
        gated += not marked and timing.discarded_blocks > 0
        untouched += not marked and timing.discarded_blocks == 0
        low, high = quiet_s[cell]
        deviation = timing.median_s / min(high, max(low, timing.median_s)) - 1
        if abs(deviation) > SILENT_SHARE:
            off += 1
            if not marked:
                silent.append(f"{cell[0]} at T = {cell[1]:,}: {deviation:+.1%}")
    spread = max((high / low - 1 for low, high in quiet_s.values()), default=0.0)
    return Disturbed(len(points), noisy, gated, untouched, off, tuple(silent), spread)
