"""Where two predictions differ: their terms side by side, and the one that makes most of the difference."""

from __future__ import annotations

from collections.abc import Mapping

from lab.cost.calls import AttentionCall
from lab.cost.peaks import live_stages

SAME = 0.01
"""Figures that differ by at most this share of the larger are called the same, peaks among them."""


def most_different(here: Mapping[str, float], there: Mapping[str, float]) -> tuple[str, float, float]:
    """Find the term that differs most.

    Args:
        here: terms by name, in one unit.
        there: the same of another shape or device; a term that is missing is 0.

    Returns:
        Its name, its value here and there.

    Raises:
        ValueError: neither has a term.
    """
    names = dict.fromkeys((*here, *there))
    if not names:
        raise ValueError("here and there have no term at all, one must have one")
    name = max(names, key=lambda term: abs(here.get(term, 0.0) - there.get(term, 0.0)))
    return name, here.get(name, 0.0), there.get(name, 0.0)


def nearest(terms: Mapping[str, float], amount: float) -> str:
    """Name the terms whose size comes nearest to an amount; equal ones are named together.

    Args:
        terms: by name.
        amount: in their unit.

    Returns:
        Names joined by "or".
    """
    apart = {name: abs(value - amount) for name, value in terms.items()}
    least = min(apart.values())
    return " or ".join(name for name, distance in apart.items() if distance <= least * (1 + 1e-9))


def peak_terms(implementation: str, call: AttentionCall) -> dict[str, float]:
    """List the tensors alive at the peak of a call.

    Args:
        implementation: that lab.cost models.
        call: the shape.

    Returns:
        Bytes by name.

    Raises:
        ValueError: a call that the implementation does not compute.
    """
    stage = max(live_stages(implementation, call), key=lambda each: each.live_bytes)
    return {name: float(size) for name, size in stage.tensors.items()}


def alike(first: float, second: float) -> bool:
    """Whether two figures are the same within SAME.

    Args:
        first: a figure above 0.
        second: another.
    """
    return abs(first - second) <= SAME * max(first, second)
