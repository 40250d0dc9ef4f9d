"""Split-KV: the keys cut into parts that are attended to independently, merged by their log-sum-exp.

A lone decoding sequence offers a kernel only batch x kv_heads pieces of work. Cutting the cache along T into
n parts offers n times as many; each part gives a partial output and the logarithm of its sum of exponentials,
and their softmax-weighted mean is the exact result. Whether this helps is the chapter's untested hypothesis.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lab.measure.attention import check_shapes, visible_keys

SPLITS = 4


def split_kv(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, splits: int | None = None) -> Tensor:
    """Compute attention over `splits` parts of the keys by plain matmuls, and merge the parts.

    Args:
        q: (batch, heads, q_len, head_dim).
        k: (batch, kv_heads, kv_len, head_dim); kv_heads divides heads.
        v: (batch, kv_heads, kv_len, head_dim_v).
        causal: hide the keys after each query; the queries are the last q_len positions.
        splits: parts; the last ones are one key shorter where kv_len does not divide. None for up to 4.

    Returns:
        (batch, heads, q_len, head_dim_v), in the dtype of the inputs.

    Raises:
        ValueError: shapes that do not fit each other, or more parts than keys.
    """
    check_shapes(q, k, v, causal)
    splits = min(SPLITS, k.shape[2]) if splits is None else splits
    check_splits(splits, k.shape[2])
    if k.shape[2] % splits == 0:
        return _equal_parts(q, k, v, causal, splits)
    outputs, sums = [], []
    first = 0
    for keys, values in zip(k.tensor_split(splits, dim=2), v.tensor_split(splits, dim=2), strict=True):
        hidden = None
        if causal and q.shape[2] > 1:
            seen = visible_keys(q.shape[2], k.shape[2], q.device)
            hidden = ~seen[:, first : first + keys.shape[2]]
        output, log_sum = _part(_grouped(q, k.shape[1]), keys[:, :, None], values[:, :, None], hidden)
        outputs.append(output)
        sums.append(log_sum)
        first += keys.shape[2]
    return merge(torch.cat(outputs, dim=2), torch.cat(sums, dim=2)).reshape(_output_shape(q, v)).to(q.dtype)


def split_kv_fused(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, splits: int = SPLITS) -> Tensor:
    """Compute one decode step by PyTorch's fused kernel over `splits` equal parts of the keys.

    Args:
        q: (batch, heads, 1, head_dim): a single query sees every key, so no part is masked.
        k: (batch, kv_heads, kv_len, head_dim); kv_heads divides heads.
        v: (batch, kv_heads, kv_len, head_dim).
        causal: as for the others; without effect on a single query.
        splits: parts; they divide kv_len.

    Returns:
        (batch, heads, 1, head_dim), in the dtype of the inputs.

    Raises:
        ValueError: shapes that do not fit each other, several queries, or parts that are not equal.
        RuntimeError: no fused kernel of this device takes the inputs.
    """
    check_shapes(q, k, v, causal)
    check_splits(splits, k.shape[2])
    if q.shape[2] != 1 or k.shape[2] % splits:
        raise ValueError(
            f"q must hold one query and splits divide kv_len, got q_len={q.shape[2]}, splits={splits} and "
            f"kv_len={k.shape[2]}"
        )
    batch, kv_heads, kv_len, head_dim = k.shape
    rows = q.shape[1] // kv_heads  # the queries of a group share their keys: rows of one call
    parts = (batch, kv_heads * splits, kv_len // splits, head_dim)
    queries = q.reshape(batch, kv_heads, 1, rows, head_dim).expand(-1, -1, splits, -1, -1)
    queries = queries.reshape(batch, kv_heads * splits, rows, head_dim)
    output, log_sum = _fused(queries, k.view(parts), v.view(parts))
    merged = merge(
        output.view(batch, kv_heads, splits, rows, head_dim), log_sum.view(batch, kv_heads, splits, rows)
    )
    return merged.reshape(q.shape).to(q.dtype)


def merge(outputs: Tensor, log_sums: Tensor) -> Tensor:
    """Merge partial outputs by the share of the exponentials that each part holds.

    Args:
        outputs: (..., parts, rows, head_dim).
        log_sums: (..., parts, rows), log-sum-exp of the scores; -inf where a part shows a row no key.

    Returns:
        (..., rows, head_dim) in fp32 or wider.

    Source: FlashAttention-2, Dao 2023 (arXiv 2307.08691), section 3.1; Flash-Decoding, Dao et al. 2023.
    """
    shares = torch.softmax(log_sums, dim=-2)
    return (outputs.to(shares.dtype) * shares.unsqueeze(-1)).sum(dim=-3)


def check_splits(splits: int, kv_len: int) -> None:
    """Refuse a number of parts that cannot be.

    Args:
        splits: parts.
        kv_len: keys.

    Raises:
        ValueError: no part, or more parts than keys.
    """
    if not 1 <= splits <= kv_len:
        raise ValueError(f"splits must be from 1 to kv_len, got splits={splits} and kv_len={kv_len}")


def _equal_parts(q: Tensor, k: Tensor, v: Tensor, causal: bool, splits: int) -> Tensor:
    """All parts in one batched product: a part is a view of the cache, nothing is copied."""
    length = k.shape[2] // splits
    hidden = None
    if causal and q.shape[2] > 1:
        seen = visible_keys(q.shape[2], k.shape[2], q.device)
        hidden = ~seen.view(q.shape[2], splits, length).transpose(0, 1)
    keys, values = (t.unflatten(2, (splits, length)) for t in (k, v))
    output, log_sum = _part(_grouped(q, k.shape[1]), keys, values, hidden)
    return merge(output, log_sum).reshape(_output_shape(q, v)).to(q.dtype)


def _part(queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None) -> tuple[Tensor, Tensor]:
    """Attend to parts of the keys: (batch, kv_heads, parts, rows, ...) and their log-sum-exp."""
    scores = (queries @ keys.transpose(-2, -1)) * (1 / math.sqrt(queries.shape[-1]))
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if hidden is not None:
        groups = scores.shape[-2] // hidden.shape[-2]  # rows are (head of the group, query)
        scores.masked_fill_(hidden.repeat(*(1,) * (hidden.ndim - 2), groups, 1), -math.inf)
    log_sum = torch.logsumexp(scores, dim=-1)
    # A row that sees no key of a part has the weight 0 there; without the clamp it would be 0 x NaN.
    weights = torch.exp(scores - log_sum.clamp(min=torch.finfo(log_sum.dtype).min).unsqueeze(-1))
    return weights.to(values.dtype) @ values, log_sum


def _grouped(q: Tensor, kv_heads: int) -> Tensor:
    """Fold the heads of a group into the rows: (batch, kv_heads, 1, group x q_len, head_dim)."""
    return q.reshape(q.shape[0], kv_heads, 1, -1, q.shape[3])


def _output_shape(q: Tensor, v: Tensor) -> tuple[int, int, int, int]:
    return (q.shape[0], q.shape[1], q.shape[2], v.shape[3])


def _fused(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Call the device's fused kernel for its output and its log-sum-exp, (batch, heads, rows)."""
    aten = torch.ops.aten
    if q.device.type == "cpu":
        output, log_sum = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)
        return output, log_sum
    if q.device.type != "cuda":
        raise RuntimeError(f"no fused kernel on {q.device.type} is known to give its log-sum-exp")
    if q.dtype in (torch.float16, torch.bfloat16) and torch.cuda.get_device_capability(q.device) >= (8, 0):
        output, log_sum, *_ = aten._scaled_dot_product_flash_attention(q, k, v)
    else:
        output, log_sum, *_ = aten._scaled_dot_product_efficient_attention(q, k, v, None, True)
    return output, log_sum[:, :, : q.shape[2]]  # some kernels pad the rows
