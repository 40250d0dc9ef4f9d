"""How many different experts a batch touches: what a mixture reads grows with the batch, up to all of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from lab.cost.exact import count, real


def expected_distinct_experts(experts: int, active: int, tokens: Any) -> Any:
    """Expect the number of different experts that some tokens are routed to.

    Args:
        experts: experts of one layer.
        active: experts a token uses, all different.
        tokens: tokens of the step; an integer or an integer array.

    Returns:
        experts · (1 - (1 - active / experts)^tokens), between `active` and `experts`: an expectation, not a
        count.

    Raises:
        ValueError: a number below 1, more active experts than there are.

    Source: each token picks its experts evenly and independently of the others (no trained router does: real
        batches touch fewer). The chance that one expert is left out by every token is (1 -
        active/experts)^tokens.
    """
    total, used = count("experts", experts), count("active", active)
    if used > total:
        raise ValueError(f"active must be at most experts={experts}, got {active}")
    missed = 1 - used / total
    chance = np.power(missed, real("tokens", count("tokens", tokens)))
    return total * (1 - chance)
