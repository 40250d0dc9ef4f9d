"""The context at which attention leads: over the feed-forward blocks, or over everything else together."""

from __future__ import annotations

from lab.cost.budget import Budget, budget
from lab.cost.shapes import ModelShape, Workload

AGAINST = ("feed-forward", "rest")
"""What the attention core is held against: the feed-forward blocks, or all other matrix products together."""

LONGEST_CONTEXT = 2**40
"""Where the search gives up: far beyond any model, and beyond where windows have stopped growing."""


def crossing_context(
    model: ModelShape,
    *,
    against: str = "rest",
    causal: bool = True,
    logits: str = "all",
    phase: str = "prefill",
    latent_form: str | None = None,
) -> int | None:
    """Find the shortest context at which the attention core costs as many FLOPs as something else.

    Args:
        model: the shape; without cross-attention.
        against: "feed-forward" blocks, or the "rest": all other matrix products, so that the core is half.
        causal: count what the masks keep; False counts every pair.
        logits: "all", "last" or "none": which part of the LM head belongs to the rest.
        phase: "prefill" of a whole prompt, or one "decode" step.
        latent_form: how MLA is computed, one of lab.cost.flops.LATENT_FORMS; None for `usual_form`.

    Returns:
        Tokens; None where windows or chunks keep the core below it at every length.

    Raises:
        ValueError: an unknown option.
    """
    if against not in AGAINST:
        raise ValueError(f"against must be one of {', '.join(AGAINST)}, got {against!r}")
    if phase not in ("prefill", "decode"):
        raise ValueError(f"phase must be prefill or decode, got {phase!r}")

    def reached(context: int) -> bool:
        work = Workload(1, context, context if phase == "prefill" else 1, "fp16", causal)
        return _core_leads(budget(model, work, logits=logits, latent_form=latent_form), against)

    high = 1
    while not reached(high):
        high *= 2
        if high > LONGEST_CONTEXT:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _core_leads(counted: Budget, against: str) -> bool:
    if against == "feed-forward":
        return counted.core_flops >= counted.feed_forward_flops
    return 2 * counted.core_flops >= counted.matmul_flops
