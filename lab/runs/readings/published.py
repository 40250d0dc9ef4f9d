"""Readings of published tables: which kernel was how fast at the longest length, and against plain PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

from lab.runs.point import Point
from lab.runs.readings.decode import bandwidth
from lab.runs.readings.words import at, called, one, timed


def published(points: Sequence[Point]) -> list[str]:
    """Name what each kernel reached at the longest length, and its time against the one that materialises scores.

    Args:
        points: of a published table.

    Returns:
        Sentences: rates at the longest length, then ratios at the longest one where plain PyTorch has a time.
    """
    found = timed(points)
    if not found:
        return []
    longest = max(point.kv_len for point in found)
    there = [point for point in points if point.kv_len == longest]
    reached = ", ".join(f"{called(point)} {_reached(point)}" for point in sorted(there, key=_seconds))
    return [f"{at(there[0])}: {reached}.", *_against_naive(found)]


def _reached(point: Point) -> str:
    """The rate by what limits the phase: FLOPs of whole sequences, bytes of the cache of one new token."""
    if point.timing is None:
        return "ran out of memory"
    if "printed_flops_per_s" in point.measures:
        return f"{point.measures['printed_flops_per_s'] / 1e12:.3g} TFLOP/s"
    return f"{bandwidth(point) / 1e9:.3g} GB/s"


def _seconds(point: Point) -> float:
    return point.timing.median_s if point.timing else float("inf")


def _against_naive(found: Sequence[Point]) -> list[str]:
    longest = max((point.kv_len for point in found if point.implementation == "naive"), default=None)
    there = [point for point in found if point.kv_len == longest]
    naive = one(there, implementation="naive")
    if naive is None:
        return []
    ratios = ", ".join(
        f"{called(point)} {_seconds(naive) / _seconds(point):.3g}"
        for point in sorted(there, key=_seconds)
        if point is not naive
    )
    return [f"{at(naive)}: time of {called(naive)} over that of the others: {ratios}."]
