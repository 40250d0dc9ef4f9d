"""Which of two times is shorter, and whether that can be said: a bootstrap interval of their ratio.

Two variants of one run were timed in the same interleaved rounds: sample i of both comes from round i, and
rounds are drawn in pairs, so that a slow minute of the machine cancels. Two runs share no rounds: their samples
are drawn independently, and each process has a time of its own (its heap, its place in memory, its minute) that
none of its samples shows. Where a run repeats, whole processes are drawn first, and rounds within them; where it
does not, the interval is widened by what processes are known to differ by, PROCESS_RATIO.
"""

from __future__ import annotations

import math
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
FEWEST_PROCESSES = 3
"""Processes from which on their own medians show how far they differ; two draws of one value tell too little."""
PROCESS_RATIO = 1.25
"""One process over another, of the same cell of the same machine: in 97.5 % of the cases the longer time is at most
so many times the shorter, in half of them 1.04 times. The few beyond, up to 1.7, are single decode steps.

Source: the 701 cells, clean in both, of the six pairs among four runs of `lab all` (three with --quick) within half
an hour: two cores of an AVX-512 server CPU, torch 2.13, bf16.
"""
DRAWS = 4000
INTERVAL = (2.5, 97.5)  # per cent
NORMAL_QUANTILE = 1.96
"""Standard deviations on either side that hold the middle 95 % of a normal distribution."""

CONDITIONS = {
    "threads": "threads",
    "allocator": "allocator",
    "cache": "cache",
    "gate": "what discards a block",
    "seed": "seed",
    "fp32_matmul_precision": "precision of fp32 products",
}
"""Of the environment: what decides a time beside the device and the version of PyTorch, with its name in words."""


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
        paired: whether they were timed in the same rounds of one run; else each in processes of its own.

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
    together = paired and len(a) == len(b) and groups[0] == groups[1]
    low, high = interval(a, b, paired=together, processes=groups, across=not paired)
    return Ratio(value, low, high, together)


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
    across: bool = False,
    seed: int = 0,
) -> tuple[float, float]:
    """Draw rounds with replacement, and give the middle 95 % of the ratio of medians.

    Args:
        first: samples, in the order of the rounds.
        second: the same of another.
        paired: whether round i of both is drawn together; they are then equally many.
        processes: how many processes took the samples of each, in turn and equally many.
        across: whether the two were timed in different processes, whose differences count as well.
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
    if paired and across:
        raise ValueError("paired samples are of the same processes, so across must be False")
    generator = np.random.default_rng(seed)
    rounds = _drawn(generator, len(first), processes[0])
    others = rounds if paired else _drawn(generator, len(second), processes[1])
    medians = [
        np.median(np.asarray(samples)[places], axis=1)
        for samples, places in ((first, rounds), (second, others))
    ]
    if across:
        of_each = zip(medians, (first, second), processes, strict=True)
        medians = [_widened(generator, drawn, float(np.median(x)), count) for drawn, x, count in of_each]
    low, high = np.percentile(medians[0] / medians[1], INTERVAL)
    return float(low), float(high)


def _widened(generator: np.random.Generator, drawn: np.ndarray, median: float, processes: int) -> np.ndarray:
    """Spread drawn medians by what the processes behind them differ by.

    From FEWEST_PROCESSES on the draws show it, but too little: drawing n values with replacement gives (n - 1) / n of
    their variance. Of fewer, each process deviates by the spread behind PROCESS_RATIO, which is of two processes.

    Source: Hesterberg, What Teachers Should Know About the Bootstrap (2015), on "narrowness bias".
    """
    if processes >= FEWEST_PROCESSES:
        return median * (drawn / median) ** math.sqrt(processes / (processes - 1))
    deviation = math.log(PROCESS_RATIO) / NORMAL_QUANTILE / math.sqrt(2 * processes)
    return drawn * np.exp(generator.normal(0, deviation, len(drawn)))


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
    if all(point.timing and len(point.timing.samples_s) >= FEWEST_SAMPLES for point in (first, second)):
        said += _few_processes(_processes(first), _processes(second))
    return tuple(said)


def _few_processes(first: int, second: int) -> list[str]:
    """Say that a difference may be one between processes, where too few were timed to know theirs."""
    advice = f"measure with --repeats {FEWEST_PROCESSES} to tell smaller differences"
    if first == second == 1:
        return [f"one process each: {advice}"]
    few = [
        f"{which} is of {count} process{'es' if count > 1 else ''}"
        for count, which in ((first, "first"), (second, "second"))
        if count < FEWEST_PROCESSES
    ]
    return [f"{' and '.join(few)}: {advice}"] if few else []


def differences(first: Run, second: Run) -> tuple[str, ...]:
    """Say under which conditions two runs were measured differently, beside device and version of PyTorch.

    Args:
        first: a run.
        second: the other.

    Returns:
        A text for each of CONDITIONS that is known of both and differs, such as "threads: 1 against 2".
    """
    found = []
    for name, words in CONDITIONS.items():
        values = first.environment.get(name), second.environment.get(name)
        if None not in values and values[0] != values[1]:
            found.append(f"{words}: {values[0]} against {values[1]}")
    return tuple(found)
