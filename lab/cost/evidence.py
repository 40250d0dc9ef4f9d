"""The evidence ledger: every number the two source documents print, recomputed and judged.

Each claim is stated in our words with the digits as printed (lab/data/claims/*.json). Where arithmetic can
settle it, the claim names a function of lab.cost.claims and its inputs, and the verdict is whether the result
can round to the printed digits: computed here, never written by hand. Where only a machine can settle it, the
claim names the experiment, and the verdict is made above, where runs are read.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from lab.cost import catalog
from lab.cost.claims.ledger import (
    CATEGORIES,
    EXPERIMENTS,
    RELATIONS,
    SOURCES,
    VERDICTS,
    Claim,
    Exercise,
    claims,
    exercises,
)
from lab.cost.claims.printed import Figure, Interval, unit_scale
from lab.cost.claims.registry import FORMULAS

__all__ = [
    "CATEGORIES",
    "EXPERIMENTS",
    "RELATIONS",
    "SOURCES",
    "VERDICTS",
    "Claim",
    "Exercise",
    "Recomputation",
    "claims",
    "exercises",
    "judge",
    "reason",
    "recompute",
    "solve",
    "summary",
    "verdict",
]


@dataclass(frozen=True)
class Recomputation:
    """What a claimed quantity comes to here, in the claim's unit."""

    value: tuple[float, ...]
    low: tuple[float, ...]  # the least and the greatest that the rounding of printed inputs allows
    high: tuple[float, ...]
    unit: str
    formula: str  # in words
    inputs: dict[str, Any]
    intervals: tuple[Interval, ...] = field(repr=False)  # the same numbers as exact fractions


def recompute(claim: Claim) -> Recomputation | None:
    """Compute what a claim is about from its stated inputs.

    Args:
        claim: an entry of `claims()`.

    Returns:
        The values in the claim's unit with the formula in words, or None where no arithmetic settles it.
    """
    if claim.formula is None:
        return None
    return _apply(claim.formula, claim.inputs, claim.unit)


def _apply(name: str, inputs: dict[str, Any], unit: str) -> Recomputation:
    formula: Callable[..., list[Interval]] = FORMULAS[name]
    results = tuple(interval.scaled(1 / unit_scale(unit)) for interval in formula(**inputs))
    return Recomputation(
        value=tuple(float(interval.value) for interval in results),
        low=tuple(float(interval.low) for interval in results),
        high=tuple(float(interval.high) for interval in results),
        unit=unit,
        formula=(formula.__doc__ or "").splitlines()[0],
        inputs=dict(inputs),
        intervals=results,
    )


@cache
def reason(claim: Claim) -> str:
    """Say why a claim is judged as it is, with every figure computed.

    Args:
        claim: an entry of `claims()`.

    Returns:
        Its `why`, in whose places stand the recomputed values (by number; `low` and `high` for what the rounding
        of printed inputs allows, `least` and `most` of them), the values of its further steps by name, its
        `inputs`, the `printed` numbers and the catalogue's `model`.
    """
    found = recompute(claim)
    known: dict[str, Any] = {"inputs": claim.inputs, "printed": claim.claimed}
    if isinstance(name := claim.inputs.get("model"), str):
        known["model"] = catalog.model(name)
    if found is not None:
        known |= {"low": found.low, "high": found.high, "least": min(found.value), "most": max(found.value)}
    for name, step in claim.steps.items():
        known[name] = _apply(step["formula"], step["inputs"], step["unit"]).value
    return claim.why.format(*(found.value if found else ()), **known)


def judge(figures: tuple[Figure, ...], relation: str, intervals: tuple[Interval, ...]) -> tuple[bool, ...]:
    """Say of each recomputed value whether the print allows it.

    Args:
        figures: printed numbers: one for each value, or one for all; two for "between".
        relation: "equal", "between", "at_least" or "at_most".
        intervals: recomputed values in the figures' unit, with the rounding of their inputs.

    Returns:
        One truth value for each recomputed value.

    Raises:
        ValueError: figures and values do not pair up, or an unknown relation.
    """
    bounds = [figure.interval for figure in figures]
    if relation == "between" and len(bounds) == 2:
        return tuple(one.high >= bounds[0].low and one.low <= bounds[1].high for one in intervals)
    if len(bounds) == 1:
        bounds = bounds * len(intervals)
    if len(bounds) != len(intervals) or not bounds:
        raise ValueError(
            f"figures must number one or as many as the values, got {len(figures)} and {len(intervals)}"
        )
    pairs = list(zip(bounds, intervals, strict=True))
    if relation == "equal":
        return tuple(one.high >= bound.low and one.low <= bound.high for bound, one in pairs)
    if relation == "at_least":
        return tuple(one.high >= bound.low for bound, one in pairs)
    if relation == "at_most":
        return tuple(one.low <= bound.high for bound, one in pairs)
    raise ValueError(f"relation must be one of {', '.join(RELATIONS)}, got {relation!r}")


def verdict(claim: Claim) -> str:
    """Judge a claim by its recomputation.

    Args:
        claim: an entry of `claims()`.

    Returns:
        "holds" when every value can round to its print, "wrong" when none can, "holds in part" when some can;
        without a formula "needs a run", or "not checkable" when no experiment settles it either.
    """
    found = recompute(claim)
    if found is None:
        return "not checkable" if claim.experiment is None else "needs a run"
    fits = judge(claim.figures, claim.relation, found.intervals)
    if all(fits):
        return "holds"
    return "holds in part" if any(fits) else "wrong"


def solve(exercise: Exercise) -> tuple[tuple[str, Recomputation], ...]:
    """Compute every number of an exercise's answer.

    Args:
        exercise: an entry of `exercises()`.

    Returns:
        A label and its value for each step; empty where only an experiment answers.
    """
    return tuple(
        (step["label"], _apply(step["formula"], step["inputs"], step["unit"])) for step in exercise.steps
    )


def summary() -> dict[str, dict[str, int]]:
    """Count the ledger.

    Returns:
        Claims by "source", "category" and "verdict".
    """
    return {
        name: dict(Counter(getattr(claim, name) for claim in claims()))
        for name in ("source", "category", "verdict")
    }
