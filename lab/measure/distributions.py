"""Inputs that are harder than noise: what real models' queries and keys look like.

Random normal inputs give scores within 6 of zero, where every implementation is accurate. In trained models a
few channels of K are tens of times larger than the rest and scores reach the hundreds; there 16-bit scores
lose whole units.
"""

from __future__ import annotations

import torch

from lab.measure.cells import Inputs

RANDOM, OUTLIERS, SHARP = "random", "outlier channels", "sharp scores"
KINDS = (RANDOM, OUTLIERS, SHARP)

OUTLIER_CHANNELS = 2
OUTLIER_FACTOR = 30.0
SHARP_FACTOR = 4.0


def shaped(inputs: Inputs, kind: str) -> Inputs:
    """Turn random inputs into those of a kind.

    Args:
        inputs: Q, K and V, normal with variance 1.
        kind: one of `KINDS`: "random" as they are; "outlier channels", two channels of K (the first of each
            half of the head) 30 times larger and of one sign; "sharp scores", Q and K 4 times larger.

    Returns:
        Q, K and V in their dtype; the values are rounded to it, so errors are counted from there.

    Raises:
        ValueError: an unknown kind.

    Source: fixed channels of K with large magnitude: KIVI, Liu et al. 2024 (arXiv 2402.02750), section 3;
        KVQuant, Hooper et al. 2024 (arXiv 2401.18079), section 3.
    """
    q, k, v = inputs
    if kind == RANDOM:
        return q, k, v
    if kind == SHARP:
        return q * SHARP_FACTOR, k * SHARP_FACTOR, v
    if kind != OUTLIERS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    channels = torch.arange(0, k.shape[-1], max(1, k.shape[-1] // OUTLIER_CHANNELS))[:OUTLIER_CHANNELS]
    keys = k.clone()
    keys[..., channels] = keys[..., channels].abs() * OUTLIER_FACTOR
    return q, keys, v


def largest_score(inputs: Inputs) -> float:
    """Give the largest absolute score of any query and key, before the mask.

    Args:
        inputs: Q, K and V.

    Returns:
        |q·k| / sqrt(head_dim), at most.
    """
    q, k, _ = inputs
    largest = 0.0
    group = q.shape[1] // k.shape[1]
    for head in range(k.shape[1]):
        queries = q[:, head * group : (head + 1) * group].float().flatten(1, 2)
        scores = queries @ k[:, head].float().transpose(-2, -1)
        largest = max(largest, float(scores.abs().max()) / q.shape[-1] ** 0.5)
    return largest
