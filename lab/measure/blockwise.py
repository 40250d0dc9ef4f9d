"""Online softmax: exact attention a block of keys at a time, never holding a row of scores in whole.

This is what a fused kernel does, written to be read. Three running values per query make it exact: the
largest score so far, the sum of exponentials relative to it, and the weighted sum of values. When a later
block holds a larger score, the two sums are rescaled by exp(old maximum - new maximum).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lab.measure.attention import check_shapes, matmul_grouped

KEY_BLOCK = 256


def blockwise(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, key_block: int = KEY_BLOCK) -> Tensor:
    """Compute attention block by block of keys, with a running maximum and running sums.

    Args:
        q: (batch, heads, q_len, head_dim).
        k: (batch, kv_heads, kv_len, head_dim); kv_heads divides heads.
        v: (batch, kv_heads, kv_len, head_dim_v).
        causal: hide the keys after each query; the queries are the last q_len positions.
        key_block: keys of a block.

    Returns:
        (batch, heads, q_len, head_dim_v), in the dtype of the inputs.

    Raises:
        ValueError: shapes that do not fit each other, or a block of no keys.

    Source: Milakov and Gimelshein 2018 (arXiv 1805.02867); FlashAttention, Dao et al. 2022
        (arXiv 2205.14135).
    """
    check_shapes(q, k, v, causal)
    if key_block < 1:
        raise ValueError(f"key_block must be at least 1, got {key_block}")
    wide = torch.promote_types(q.dtype, torch.float32)  # running sums are kept in fp32, as kernels do
    queries = q.to(wide) / math.sqrt(q.shape[-1])
    largest = queries.new_full((*q.shape[:3], 1), -math.inf)
    total = queries.new_zeros((*q.shape[:3], 1))
    weighted = queries.new_zeros((*q.shape[:3], v.shape[3]))
    last_seen = torch.arange(q.shape[2], device=q.device)[:, None] + (k.shape[2] - q.shape[2])
    for start in range(0, k.shape[2], key_block):
        keys, values = (t[:, :, start : start + key_block].to(wide) for t in (k, v))
        scores = matmul_grouped(queries, keys.transpose(-2, -1))
        if causal:
            positions = torch.arange(start, start + keys.shape[2], device=q.device)
            scores.masked_fill_(positions > last_seen, -math.inf)
        # The first block holds key 0, which every query sees: from then on the maximum is finite.
        new_largest = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))
        rescale = torch.exp(largest - new_largest)
        weights = torch.exp(scores - new_largest)
        total = total * rescale + weights.sum(dim=-1, keepdim=True)
        weighted = weighted * rescale + matmul_grouped(weights, values)
        largest = new_largest
    return (weighted / total).to(q.dtype)
