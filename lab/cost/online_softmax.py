"""Online softmax: exact attention for one query, block by block, without ever holding all its scores.

The explainer steps through it with real numbers; lab.measure has the same recurrence on tensors. Each block
of keys updates three running values: the maximum m of the scores so far, the sum l of exp(score - m), and
the weighted sum of values. When a block raises m, the two sums are first multiplied by exp(old m - new m).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lab.cost.exact import count


@dataclass(frozen=True)
class SoftmaxStep:
    """The running state after one block of keys; arrays are float64."""

    first_key: int
    last_key: int  # not included
    scores: np.ndarray  # (keys of the block,), scaled
    maximum: float  # largest score so far
    rescale: float  # what the earlier sums were multiplied by; 0 for the first block
    total: float  # sum of exp(score - maximum) so far
    weighted_values: np.ndarray  # (head_dim,), not yet divided by total

    @property
    def output(self) -> np.ndarray:
        """Attention over the keys seen so far, (head_dim,)."""
        return self.weighted_values / self.total


def online_softmax(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray, block: int
) -> Iterator[SoftmaxStep]:
    """Walk over the keys in blocks; the last step's output is the attention output.

    Args:
        query: (head_dim,).
        keys: (kv_len, head_dim).
        values: (kv_len, head_dim_v).
        block: keys a step; the last block may be shorter.

    Yields:
        The state after each block.

    Raises:
        ValueError: shapes that do not fit each other, a block below 1, a number that is not finite.

    Source: Milakov and Gimelshein, arXiv:1805.02867; Dao et al., arXiv:2205.14135, algorithm 1.
    """
    count("block", block)
    query, keys, values = (np.asarray(array, dtype=np.float64) for array in (query, keys, values))
    _check_shapes(query, keys, values)
    scale = 1 / np.sqrt(len(query))
    maximum, total, weighted = -np.inf, 0.0, np.zeros(values.shape[1])
    for first in range(0, len(keys), block):
        last = min(first + block, len(keys))
        scores = keys[first:last] @ query * scale
        raised = max(maximum, float(scores.max()))
        rescale = float(np.exp(maximum - raised))
        weights = np.exp(scores - raised)
        total = total * rescale + float(weights.sum())
        weighted = weighted * rescale + weights @ values[first:last]
        maximum = raised
        yield SoftmaxStep(first, last, scores, maximum, rescale, total, weighted)


def direct_softmax(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Compute the same output with all scores at once, for comparison.

    Args:
        query: (head_dim,).
        keys: (kv_len, head_dim).
        values: (kv_len, head_dim_v).

    Returns:
        softmax(Kq/√d) · V, (head_dim_v,), float64.

    Raises:
        ValueError: shapes that do not fit each other, a number that is not finite.

    Source: Vaswani et al., arXiv:1706.03762, equation 1.
    """
    query, keys, values = (np.asarray(array, dtype=np.float64) for array in (query, keys, values))
    _check_shapes(query, keys, values)
    scores = keys @ query / np.sqrt(len(query))
    weights = np.exp(scores - scores.max())
    return weights @ values / weights.sum()


def _check_shapes(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> None:
    if query.ndim != 1 or keys.ndim != 2 or values.ndim != 2 or not len(keys):
        raise ValueError(
            "query, keys and values must be (d,), (T, d) and (T, d_v) with T at least 1, "
            f"got {query.shape}, {keys.shape} and {values.shape}"
        )
    if keys.shape[1] != len(query) or len(values) != len(keys):
        raise ValueError(
            "keys must be as wide as query and as many as values, "
            f"got {query.shape}, {keys.shape} and {values.shape}"
        )
    if not all(np.isfinite(array).all() for array in (query, keys, values)):
        raise ValueError("query, keys and values must hold finite numbers only")
