"""Joining what several processes found of one cell: samples together, and the spread between the processes.

Within one process the samples share a heap, a placement in memory and a minute; another process draws these
anew. The spread between processes is therefore seen only by repeating, and may exceed the one within.
"""

from __future__ import annotations

import statistics
from dataclasses import replace

import numpy as np

from lab.runs.point import Point, Timing
from lab.runs.repeat import Repeat
from lab.runs.run import Run

APART = "the medians of "
"""How a warning about the spread between processes begins; the next process replaces it."""


def with_repeat(run: Run, later: Point, number: int) -> Run:
    """Return a run with a point added that a further process found.

    Args:
        run: with what earlier processes found.
        later: the point.
        number: of the process, 2 for the second.

    Returns:
        The run; a cell that was timed before has its samples joined.
    """
    points = [joined(known, later, number) if known.key == later.key else known for known in run.points]
    if all(known.key != later.key for known in run.points):
        points.append(later)
    return replace(run, points=tuple(points))


def joined(known: Point, later: Point, number: int) -> Point:
    """Join two points of one cell.

    Args:
        known: what earlier processes found.
        later: what a further one found.
        number: of that one, 2 for the second.

    Returns:
        The point; the worse status stands, and what the further process alone warns of says so.

    Raises:
        ValueError: the two are not the same cell.
    """
    new = tuple(f"process {number}: {text}" for text in later.warnings if text not in known.warnings)
    point = known.merge(replace(later, warnings=new))
    if known.timing is None or later.timing is None:
        return point
    timing = pooled(known.timing, later.timing)
    warnings = [text for text in point.warnings if not text.startswith(APART)]
    said = spread_words(timing)
    return replace(point, timing=timing, warnings=(*warnings, said) if said else tuple(warnings))


def pooled(known: Timing, later: Timing) -> Timing:
    """Put the samples of a further process to those of earlier ones.

    Args:
        known: of earlier ones.
        later: of the further one.

    Returns:
        Median and quartiles over all samples, each process's own beside them; the first call is the first
        process's.
    """
    repeats = (*(known.repeats or (_repeat(known),)), _repeat(later))
    samples = known.samples_s + later.samples_s
    low: float | None
    high: float | None
    if samples:
        low, middle, high = (float(value) for value in np.percentile(samples, (25, 50, 75)))
    else:  # medians alone are known
        low, middle, high = None, statistics.median(each.median_s for each in repeats), None
    return replace(
        known,
        median_s=middle,
        q1_s=low,
        q3_s=high,
        n=len(samples) or None,
        samples_s=samples,
        discarded_blocks=known.discarded_blocks + later.discarded_blocks,
        repeats=repeats,
    )


def spread_words(timing: Timing) -> str | None:
    """Say that processes differ more than the samples within one, where they do.

    Args:
        timing: of several processes.

    Returns:
        A warning, or None.
    """
    between, within = timing.between_spread, timing.within_spread
    if between is None or within is None or between <= within:
        return None
    return (
        f"{APART}{len(timing.repeats)} processes lie {between:.1%} apart, more than the {within:.1%} that the "
        "samples of one spread over: the time is no more certain than that"
    )


def _repeat(timing: Timing) -> Repeat:
    return Repeat(timing.median_s, timing.q1_s, timing.q3_s, len(timing.samples_s))
