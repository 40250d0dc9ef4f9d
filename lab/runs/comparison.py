"""Which of two times is shorter, and whether that can be said: a bootstrap interval of their ratio.

Two variants of one run were timed in the same interleaved rounds: sample i of both comes from round i, and
rounds are drawn in pairs, so that a slow minute of the machine cancels. Two runs share no rounds: their samples
are drawn independently, and a machine that was slow for a whole run is noticed only where the run repeats:
then whole processes are drawn first, and rounds within them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lab.runs.point import Point
from lab.runs.run import Run

FASTER, SLOWER, TIE = "faster", "slower", "too close to call"
NOT_JUDGED = "not judged: fewer than three samples"
TIE_SHARE = 0.02
"""Differences under 2 % are ties, whatever the interval says."""
FEWEST_SAMPLES = 3
DRAWS = 4000
INTERVAL = (2.5, 97.5)  # per cent


@dataclass(frozen=True)
class Ratio:
    """One time over another.

    Args:
        value: median of the first over median of the second.
        low: lower end of the 95 % interval; None with fewer than three samples of either.
        high: upper end.
        paired: whether the samples are of the same rounds.
    """

    value: float
    low: float | None
    high: float | None
    paired: bool

    @property
    def verdict(self) -> str:
        """Whether the first is faster or slower than the second, or too close to call; or that nothing is known."""
        if self.low is None or self.high is None:
            return NOT_JUDGED
        if abs(self.value - 1) < TIE_SHARE:
            return TIE
        if self.low <= 1 <= self.high:
            return TIE
        return FASTER if self.value < 1 else SLOWER

    @property
    def text(self) -> str:
        """The ratio with its interval, such as "0.56 (0.55-0.57)"."""
        if self.low is None or self.high is None:
            return f"{self.value:.3g} (no interval)"
        return f"{self.value:.3g} ({self.low:.3g}-{self.high:.3g})"


@dataclass(frozen=True)
class Compared:
    """One cell in two runs.

    Args:
        first: the point of the first run.
        second: the point of the second.
        ratio: time of the first over time of the second, or None where one has no time.
        remarks: what else differs, in words.
    """

    first: Point
    second: Point
    ratio: Ratio | None
    remarks: tuple[str, ...]


def ratio_of(first: Point, second: Point, *, paired: bool) -> Ratio | None:
    """Compare the times of two points.

    Args:
        first: a point.
        second: another.
        paired: whether they were timed in the same rounds of one run.

    Returns:
        The ratio, or None where one of them has no time.
    """
    if first.timing is None or second.timing is None or second.timing.median_s == 0:
        return None
    a, b = first.timing.samples_s, second.timing.samples_s
    value = first.timing.median_s / second.timing.median_s
    if min(len(a), len(b)) < FEWEST_SAMPLES:
        return Ratio(value, None, None, paired)
    groups = _processes(first), _processes(second)
    paired = paired and len(a) == len(b) and groups[0] == groups[1]
    low, high = interval(a, b, paired=paired, processes=groups)
    return Ratio(value, low, high, paired)


def _processes(point: Point) -> int:
    """How many processes took the samples, where all took equally many; else they count as of one."""
    counts = {repeat.n for repeat in point.timing.repeats} if point.timing else set()
    return len(point.timing.repeats) if point.timing and len(counts) == 1 else 1


def interval(
    first: Sequence[float],
    second: Sequence[float],
    *,
    paired: bool,
    processes: tuple[int, int] = (1, 1),
    seed: int = 0,
) -> tuple[float, float]:
    """Draw rounds with replacement, and give the middle 95 % of the ratio of medians.

    Args:
        first: samples, in the order of the rounds.
        second: the same of another.
        paired: whether round i of both is drawn together; they are then equally many.
        processes: how many processes took the samples of each, in turn and equally many.
        seed: of the draws.

    Returns:
        The ends of the interval.

    Raises:
        ValueError: no samples, or paired samples that are not equally many.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13 (percentile intervals).
    """
    if not first or not second:
        raise ValueError(f"both must have samples, got {len(first)} and {len(second)}")
    if paired and len(first) != len(second):
        raise ValueError(f"paired samples must be equally many, got {len(first)} and {len(second)}")
    generator = np.random.default_rng(seed)
    rounds = _drawn(generator, len(first), processes[0])
    others = rounds if paired else _drawn(generator, len(second), processes[1])
    ratios = np.median(np.asarray(first)[rounds], axis=1) / np.median(np.asarray(second)[others], axis=1)
    low, high = np.percentile(ratios, INTERVAL)
    return float(low), float(high)


def _drawn(generator: np.random.Generator, samples: int, processes: int) -> np.ndarray:
    """Draw places of samples: processes with replacement, and in each as many samples as it took."""
    each = samples // processes
    chosen = generator.integers(processes, size=(DRAWS, processes, 1))
    within = generator.integers(each, size=(DRAWS, processes, each))
    return (chosen * each + within).reshape(DRAWS, processes * each)


def compare(first: Run, second: Run) -> tuple[tuple[Compared, ...], tuple[Point, ...], tuple[Point, ...]]:
    """Compare two runs cell by cell.

    Args:
        first: a run.
        second: another, of another machine or version, or of another day.

    Returns:
        The cells that both have, those of the first alone, and those of the second alone.
    """
    theirs = {point.key: point for point in second.points}
    both = [
        Compared(
            point,
            theirs[point.key],
            ratio_of(point, theirs[point.key], paired=False),
            remarks(point, theirs[point.key]),
        )
        for point in first.points
        if point.key in theirs
    ]
    known = {each.first.key for each in both}
    alone = tuple(point for point in first.points if point.key not in known)
    return tuple(both), alone, tuple(point for point in second.points if point.key not in known)


def remarks(first: Point, second: Point) -> tuple[str, ...]:
    """Say what differs between two points of one cell beside their times.

    Args:
        first: a point.
        second: the other.

    Returns:
        Short texts; none when they are alike.
    """
    said = []
    for point, which in ((first, "first"), (second, "second")):
        if not point.accepted:
            said.append(
                f"{which} is {point.status.replace('_', ' ') if point.status != 'ok' else 'not accepted'}"
            )
        elif point.status == "noisy":
            said.append(f"{which} is noisy")
    if first.cache and second.cache and first.cache != second.cache:
        said.append(f"{first.cache} cache against {second.cache}")
    if first.kernel and second.kernel and first.kernel != second.kernel:
        said.append(f"{first.kernel} against {second.kernel}")
    return tuple(said)
