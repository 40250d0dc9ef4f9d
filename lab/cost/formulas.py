"""The closed forms: what one attention call computes and what its tensors weigh.

Scalars give exact Python integers of any size. Arrays broadcast and give int64 where the result fits, else
float64 with an `InexactResultWarning` (lab.cost.exact). A multiply-add is 2 FLOPs; the softmax is not in
`attention_flops` but in `softmax_operations`. Causal counts are exact, not halves.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lab.cost.exact import Count, Number, byte_ratio, count, evaluate, flag, smaller

BYTES_PER_ELEMENT: dict[str, int] = {"fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2}
"""Bytes of one element by dtype name (IEEE 754 and bfloat16); cache storage types are in storage.py."""

SOFTMAX_OPERATIONS_PER_SCORE = 5
"""max, subtract, exp, sum, divide: the convention of google-research/electra, flops_computation.py."""


def element_bytes(dtype: str) -> int:
    """Look up the width of a dtype.

    Args:
        dtype: "fp64", "fp32", "fp16" or "bf16".

    Returns:
        Bytes of one element.

    Raises:
        ValueError: an unknown name.
    """
    if not isinstance(dtype, str) or dtype not in BYTES_PER_ELEMENT:
        raise ValueError(f"dtype must be one of {', '.join(BYTES_PER_ELEMENT)}, got {dtype!r}")
    return BYTES_PER_ELEMENT[dtype]


def attention_pairs(q_len: Any, kv_len: Any, causal: bool, window: Any = None) -> Count:
    """Count the query-key pairs one head has to score.

    Args:
        q_len: queries; in the causal case they are the last q_len of the kv_len positions.
        kv_len: keys.
        causal: whether a query sees only its own and earlier positions.
        window: keys a query sees at most, its own included; None for all. Needs causal=True.

    Returns:
        Pairs: q_len·kv_len dense, T(T+1)/2 for causal self-attention, Σ min(i, window) with a window.

    Raises:
        ValueError: a size below 1, kv_len < q_len when causal, a window without causal.

    Source: counted; a loop over positions is the test.
    """
    if not flag("causal", causal):
        if window is not None:
            raise ValueError(
                f"window needs causal=True (it counts earlier keys), got window={window!r} with causal=False"
            )
        return evaluate(lambda q, k: q * k, count("q_len", q_len), count("kv_len", kv_len))
    queries, keys = causal_lengths(q_len, kv_len)
    if window is None:
        return evaluate(_causal_pairs, queries, keys)
    return evaluate(_windowed_pairs, queries, keys, count("window", window))


def causal_lengths(q_len: Any, kv_len: Any) -> tuple[Count, Count]:
    """Check lengths of which the queries are the last positions.

    Args:
        q_len: queries.
        kv_len: positions.

    Returns:
        Both, checked.

    Raises:
        ValueError: a size below 1, kv_len < q_len.
    """
    queries, keys = count("q_len", q_len), count("kv_len", kv_len)
    if np.any(np.less(keys, queries)):
        raise ValueError(
            f"kv_len must be at least q_len when causal, got kv_len={kv_len!r} and q_len={q_len!r}"
        )
    return queries, keys


def _causal_pairs(queries: Any, keys: Any) -> Any:
    return queries * keys - queries * (queries - 1) // 2


def _windowed_pairs(queries: Any, keys: Any, window: Any) -> Any:
    """Sum min(i, window) over the last positions: those before the window is full, then the others."""
    earlier = keys - queries
    growing = smaller(keys, window) - smaller(earlier, window)
    return growing * earlier + growing * (growing + 1) // 2 + (queries - growing) * smaller(keys, window)


def attention_flops(
    batch: Any,
    heads: Any,
    q_len: Any,
    kv_len: Any,
    head_dim: Any,
    causal: bool,
    *,
    head_dim_v: Any = None,
    window: Any = None,
) -> Count:
    """Count the FLOPs of the two matrix products of attention, QKᵀ and PV.

    Args:
        batch: sequences.
        heads: query heads; grouped key/value heads change the bytes, not this count.
        q_len: queries per sequence.
        kv_len: keys per sequence.
        head_dim: width of a query and key head.
        causal: count only the pairs a causal mask keeps.
        head_dim_v: width of a value head where it differs (MLA); None means head_dim.
        window: keys a query sees at most; None for all.

    Returns:
        FLOPs: 2·batch·heads·pairs·(head_dim + head_dim_v).

    Raises:
        ValueError: as `attention_pairs`; any size below 1.

    Source: 4·B·h·Tq·Tkv·d, the attention-cost chapter; Dao et al., arXiv 2205.14135.
    """
    width = count("head_dim", head_dim)
    width_v = width if head_dim_v is None else count("head_dim_v", head_dim_v)
    pairs = attention_pairs(q_len, kv_len, causal, window)
    return evaluate(
        lambda b, h, p, k, v: 2 * (k + v) * h * b * p,
        count("batch", batch),
        count("heads", heads),
        pairs,
        width,
        width_v,
    )


def softmax_operations(
    batch: Any, heads: Any, q_len: Any, kv_len: Any, causal: bool, *, window: Any = None
) -> Count:
    """Count the elementwise operations of the softmax, kept apart from matmul FLOPs.

    Args:
        batch: sequences.
        heads: query heads.
        q_len: queries per sequence.
        kv_len: keys per sequence.
        causal: count only the pairs a causal mask keeps.
        window: keys a query sees at most; None for all.

    Returns:
        Operations, `SOFTMAX_OPERATIONS_PER_SCORE` for each score.

    Raises:
        ValueError: as `attention_pairs`.
    """
    pairs = attention_pairs(q_len, kv_len, causal, window)
    return evaluate(
        lambda b, h, p: SOFTMAX_OPERATIONS_PER_SCORE * b * h * p,
        count("batch", batch),
        count("heads", heads),
        pairs,
    )


def score_bytes(batch: Any, heads: Any, q_len: Any, kv_len: Any, bytes_per_element: Number) -> Count:
    """Weigh one score tensor, (batch, heads, q_len, kv_len); a causal mask does not shrink it.

    Args:
        batch: sequences.
        heads: query heads.
        q_len: queries per sequence.
        kv_len: keys per sequence.
        bytes_per_element: bytes of one score.

    Returns:
        Bytes.

    Raises:
        ValueError: a size below 1.
    """
    sizes = {"batch": batch, "heads": heads, "q_len": q_len, "kv_len": kv_len}
    return _tensor_bytes(1, sizes, bytes_per_element)


def kv_bytes(
    batch: Any, layers: Any, kv_heads: Any, kv_len: Any, head_dim: Any, bytes_per_element: Number
) -> Count:
    """Weigh a KV cache, keys and values together.

    Args:
        batch: sequences.
        layers: layers that keep a cache.
        kv_heads: key/value heads (not query heads).
        kv_len: tokens cached per sequence.
        head_dim: width of a head, the same for keys and values.
        bytes_per_element: bytes of one stored number.

    Returns:
        Bytes: 2·batch·layers·kv_heads·kv_len·head_dim·bytes_per_element.

    Raises:
        ValueError: a size below 1.
    """
    sizes = {"batch": batch, "layers": layers, "kv_heads": kv_heads, "kv_len": kv_len, "head_dim": head_dim}
    return _tensor_bytes(2, sizes, bytes_per_element)


def logits_bytes(batch: Any, positions: Any, vocab: Any, bytes_per_element: Number) -> Count:
    """Weigh the logits, (batch, positions, vocab).

    Args:
        batch: sequences.
        positions: positions whose logits are formed: all of them, or 1 when only the last is.
        vocab: vocabulary size.
        bytes_per_element: bytes of one logit.

    Returns:
        Bytes.

    Raises:
        ValueError: a size below 1.
    """
    return _tensor_bytes(1, {"batch": batch, "positions": positions, "vocab": vocab}, bytes_per_element)


def mask_bytes(q_len: Any, kv_len: Any, bytes_per_element: Number) -> Count:
    """Weigh a mask tensor, (q_len, kv_len), shared by batch and heads.

    Args:
        q_len: queries.
        kv_len: keys.
        bytes_per_element: 1 for a boolean mask, the dtype's width for an additive one.

    Returns:
        Bytes.

    Raises:
        ValueError: a size below 1.
    """
    return _tensor_bytes(1, {"q_len": q_len, "kv_len": kv_len}, bytes_per_element)


def _tensor_bytes(tensors: int, sizes: dict[str, Any], bytes_per_element: Number) -> Count:
    """Multiply out a tensor's sizes; a last byte filled in part counts whole."""
    numerator, denominator = byte_ratio("bytes_per_element", bytes_per_element)
    factors = [count(name, value) for name, value in sizes.items()] + [numerator]
    factors.sort(key=lambda factor: isinstance(factor, np.ndarray))  # scalars first: fewer passes over arrays

    def total(*values: Any) -> Any:
        product = tensors
        for value in values:
            product = product * value
        return product if denominator == 1 else -(-product // denominator)

    return evaluate(total, *factors, headroom=2 * denominator)


def fit_exponent(lengths: Sequence[float] | np.ndarray, seconds: Sequence[float] | np.ndarray) -> float:
    """Fit seconds = c · length^p by least squares on the logarithms.

    Args:
        lengths: sequence lengths, positive, at least two different ones.
        seconds: the time at each length, positive (any unit: only the slope is returned).

    Returns:
        The exponent p.

    Raises:
        ValueError: unequal numbers of both, values not positive and finite, fewer than two distinct lengths.
    """
    x, y = _positive("lengths", lengths), _positive("seconds", seconds)
    if len(x) != len(y):
        raise ValueError(f"lengths and seconds must pair up, got {len(x)} lengths and {len(y)} seconds")
    if len(np.unique(x)) < 2:
        raise ValueError(
            f"lengths must hold at least two different lengths to fit a slope, got {list(lengths)!r}"
        )
    log_x, log_y = np.log(x), np.log(y)
    offset = log_x - log_x.mean()
    return float((offset @ (log_y - log_y.mean())) / (offset @ offset))


def _positive(name: str, values: Any) -> np.ndarray:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a sequence of numbers, got {values!r}") from None
    if numbers.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {numbers.shape}")
    if not np.all(np.isfinite(numbers) & (numbers > 0)):
        raise ValueError(f"{name} must be finite and more than 0, got {list(values)!r}")
    return numbers
