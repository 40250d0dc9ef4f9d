"""Sliding-window attention: each query sees its last `window` keys, and the work grows with T x window.

Queries go in blocks; a block needs only the keys from its first query's window to its last query. PyTorch's
fused kernel computes each block with a mask of (block, block + window - 1), so that memory and time grow
linearly in T for a fixed window; a T x T mask would hide the same keys and save nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from lab.measure.attention import check_shapes, visible_keys

QUERY_BLOCK = 256


def windowed(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, window: int | None = None) -> Tensor:
    """Compute causal attention in which query i sees the last `window` keys up to its own position.

    Args:
        q: (batch, heads, q_len, head_dim).
        k: (batch, kv_heads, kv_len, head_dim); kv_heads divides heads.
        v: (batch, kv_heads, kv_len, head_dim_v).
        causal: must be True when a window is given; the queries are the last q_len positions.
        window: keys a query sees, its own included; None for all.

    Returns:
        (batch, heads, q_len, head_dim_v), in the dtype of the inputs.

    Raises:
        ValueError: shapes that do not fit each other, a window without a causal mask, or an empty one.

    Source: Longformer, Beltagy et al. 2020 (arXiv 2004.05150); Mistral 7B, Jiang et al. 2023
        (arXiv 2310.06825).
    """
    check_shapes(q, k, v, causal)
    grouped = q.shape[1] != k.shape[1]
    if not causal:
        if window is not None:
            raise ValueError(f"causal must be True when there is a window, got window={window}")
        return scaled_dot_product_attention(q, k, v, enable_gqa=grouped)
    span = check_window(window, k.shape[2])
    offset = k.shape[2] - q.shape[2]
    blocks = []
    for start in range(0, q.shape[2], QUERY_BLOCK):
        queries = q[:, :, start : start + QUERY_BLOCK]
        end = offset + start + queries.shape[2]
        first = max(0, offset + start - span + 1)
        mask = visible_in_window(queries.shape[2], end - first, span, q.device)
        keys, values = k[:, :, first:end], v[:, :, first:end]
        blocks.append(scaled_dot_product_attention(queries, keys, values, attn_mask=mask, enable_gqa=grouped))
    return torch.cat(blocks, dim=2)


def masked_window(q: Tensor, k: Tensor, v: Tensor, *, window: int) -> Tensor:
    """Compute the same by one call with a (q_len, kv_len) mask: right, and no cheaper than full attention.

    Args:
        q: (batch, heads, q_len, head_dim).
        k: (batch, kv_heads, kv_len, head_dim); kv_heads divides heads.
        v: (batch, kv_heads, kv_len, head_dim_v).
        window: keys a query sees, its own included.

    Returns:
        (batch, heads, q_len, head_dim_v), in the dtype of the inputs.

    Raises:
        ValueError: shapes that do not fit each other, or an empty window.
    """
    check_shapes(q, k, v, True)
    span = check_window(window, k.shape[2])
    mask = visible_in_window(q.shape[2], k.shape[2], span, q.device)
    return scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=q.shape[1] != k.shape[1])


def visible_in_window(q_len: int, kv_len: int, window: int, device: torch.device) -> Tensor:
    """Give the mask of a causal window, aligned to the last keys.

    Args:
        q_len: queries.
        kv_len: keys.
        window: keys a query sees, its own included.
        device: where the mask lies.

    Returns:
        (q_len, kv_len) of bool, True where the query may see the key.
    """
    return visible_keys(q_len, kv_len, device).triu_(kv_len - q_len - window + 1)


def check_window(window: int | None, kv_len: int) -> int:
    """Give the keys that a window shows at most.

    Args:
        window: keys a query sees, or None for all.
        kv_len: keys there are.

    Returns:
        From 1 to kv_len.

    Raises:
        ValueError: an empty window.
    """
    if window is not None and window < 1:
        raise ValueError(f"window must be at least 1 or None, got {window}")
    return kv_len if window is None else min(window, kv_len)
