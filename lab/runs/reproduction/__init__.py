"""Claims of measured figures, read from what this machine measured. No torch.

A rule says which points a claim is about and what to read from them. A figure printed for another card is not
contradicted by this machine: what can be said is whether it is the same here, whether a ratio lies on the same
side of one, or that it is another. Where a claim prints no figure, a comparison decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from lab.cost.evidence import Claim
from lab.runs.reproduction import comparisons, derived, figures
from lab.runs.reproduction.values import (
    OTHER,
    SAME,
    SIDE,
    Found,
    Reproduction,
    Seen,
    Value,
    batches_of,
    lengths_of,
)
from lab.runs.run import Run

__all__ = ["RULES", "Reproduction", "Value", "batches_of", "lengths_of", "measurable", "reproduce"]

Reader = Callable[[Claim, re.Match[str], Seen], Found]


def reproduce(claim: Claim, runs: Sequence[Run]) -> Reproduction | None:
    """Read a claim from runs of one device.

    Args:
        claim: of the ledger.
        runs: the newest first.

    Returns:
        What was found; None where no rule reads this claim or nothing it needs was measured.
    """
    for pattern, reader in RULES:
        match = re.fullmatch(pattern, claim.id)
        if match:
            found = reader(claim, match, Seen(runs))
            if not found:
                return None
            if isinstance(found, tuple):
                return Reproduction((), found[0], found[1])
            return Reproduction(tuple(found), _outcome(claim, found))
    return None


def measurable(claim: Claim) -> bool:
    """Whether a rule reads this claim from runs."""
    return any(re.fullmatch(pattern, claim.id) for pattern, _ in RULES)


def _outcome(claim: Claim, values: list[Value]) -> str:
    if all(value.agrees for value in values):
        return SAME
    printed = [value for value in values if value.printed is not None]
    if claim.unit == "×" and all(
        (one.value < 1) == (one.printed.value < 1) for one in printed if one.printed
    ):
        return SIDE
    return OTHER


RULES: tuple[tuple[str, Reader], ...] = (
    (r"chapter\.memory\.naive_t(\d+)", figures.peak),
    (r"chapter\.error\.(fp16|fp32)_t(\d+)", figures.errors),
    (r"chapter\.time\.t(\d+)", figures.times),
    (r"chapter\.(?:time|evidence)\.repeats", comparisons.spread),
    (r"chapter\.causal\.(efficient|math|naive)", figures.masks),
    (r"chapter\.model\.(times|peak|logits)_t(\d+)", figures.model),
    (r"chapter\.decode\.time_b(\d+)_t(\d+)", figures.decode),
    (r"chapter\.correction\.ratios", figures.first_call),
    (r"chapter\.(?:decode|evidence)\.parallelism", comparisons.splitting),
    (r"chapter\.evidence\.model_peak", comparisons.same_peak),
    (r"chapter\.backends\.table", comparisons.backends),
    (r"chapter\.limits\.flash", comparisons.flash),
    (r"chapter\.limits\.masks", comparisons.other_masks),
    (r"chapter\.limits\.inputs", comparisons.outliers),
    (r"chapter\.memory\.(?:math|efficient)_t\d+|chapter\.opening\.(?:asked|fused)", derived.peaks),
    (r"chapter\.memory\.row\d+|chapter\.evidence\.efficient_peak", derived.peaks),
    (r"chapter\.memory\.(?:naive|math)_multiple_t\d+", derived.multiples),
    (r"chapter\.memory\.(?:settles|math_needs)|chapter\.evidence\.naive_peak", derived.multiples),
    (r"chapter\.opening\.five_hundred|chapter\.increment\.difference", derived.less_memory),
    (r"chapter\.(?:opening|time|evidence)\.eleven", derived.less_time),
    (r"chapter\.time\.exponent_(?:fp16|fp32)_\w+|chapter\.evidence\.quadratic", derived.exponents),
    (r"chapter\.time\.(?:throughput|naive_rate)", derived.throughputs),
    (r"chapter\.decode\.(?:bandwidth_b\d+_t\d+|fifty)", derived.bandwidths),
    (r"chapter\.causal\.(?:math|naive)_slower", derived.masked_extra),
    (r"chapter\.model\.(?:faster|saved)_t\d+|chapter\.evidence\.model_range", derived.model_gain),
    (r"chapter\.error\.twice", derived.error_ratio),
    (r"chapter\.correction\.seven", derived.cold_gap),
)
"""Which claims are read from runs, and how; a claim whose id matches none is not."""
