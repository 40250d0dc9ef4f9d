"""Naive attention with intermediates in fp32: what 16-bit scores and probabilities cost in accuracy.

Exercise 7 of the chapter. Inputs and output keep their dtype; scores, mask, softmax and the product with V
are fp32, so that the only 16-bit roundings left are those of the inputs and of the output.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lab.measure.attention import check_shapes, matmul_grouped, visible_keys


def naive_fp32(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
    """Compute attention as `naive_attention` does, with every intermediate tensor in fp32.

    Args:
        q: (batch, heads, q_len, head_dim).
        k: (batch, kv_heads, kv_len, head_dim); kv_heads divides heads.
        v: (batch, kv_heads, kv_len, head_dim_v).
        causal: hide the keys after each query; the queries are the last q_len positions.

    Returns:
        (batch, heads, q_len, head_dim_v), in the dtype of the inputs.

    Raises:
        ValueError: shapes that do not fit each other.
    """
    check_shapes(q, k, v, causal)
    wide = torch.promote_types(q.dtype, torch.float32)  # fp64 stays fp64
    scores = matmul_grouped(q.to(wide), k.to(wide).transpose(-2, -1))
    scores = scores * (1 / math.sqrt(q.shape[-1]))
    if causal and q.shape[2] > 1:
        mask = visible_keys(q.shape[2], k.shape[2], q.device)
        scores = scores.masked_fill(~mask, -math.inf)
    probabilities = torch.softmax(scores, dim=-1)
    del scores
    return matmul_grouped(probabilities, v.to(wide)).to(q.dtype)
