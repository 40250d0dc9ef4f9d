"""What the experiments on single tricks vary, for those who measure it and those who draw it. No torch."""

from __future__ import annotations

WINDOWS = (256, 1024)
"""Sliding windows that are measured, in tokens; a window must be shorter than the context."""

STORED = ("fp8", "int8", "q8_0", "q4_0")
"""Storage types of K and V whose error is measured, by their names in lab.cost.storage."""

MOST_GROUPINGS = 4


def groupings(heads: int) -> list[int]:
    """Choose numbers of KV heads: from as many as query heads down to one, at most four.

    Args:
        heads: query heads.

    Returns:
        Divisors of heads, largest first.
    """
    divisors = [count for count in range(heads, 0, -1) if heads % count == 0]
    if len(divisors) <= MOST_GROUPINGS:
        return divisors
    last = len(divisors) - 1
    return [divisors[round(place * last / (MOST_GROUPINGS - 1))] for place in range(MOST_GROUPINGS)]
