"""Two answers to the chapter's exercise 3: naive attention that masks fewer rows.

Taken literally - leave the first row of each block unmasked - the change opens the future to those rows: it
is another function. Done right, a block of queries masks only the square of scores on the diagonal, since
every query of the block sees all keys before it; keys after the block need no scores at all.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lab.measure.attention import check_shapes, matmul_grouped, visible_keys

BLOCK = 64


def unmasked_first_rows(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute naive causal attention whose mask leaves out the first row of each block of 64.

    Args:
        q: (batch, heads, q_len, head_dim).
        k: (batch, kv_heads, kv_len, head_dim); kv_heads divides heads.
        v: (batch, kv_heads, kv_len, head_dim_v).

    Returns:
        (batch, heads, q_len, head_dim_v): not causal in rows 0, 64, 128, ..., which see every key.

    Raises:
        ValueError: shapes that do not fit each other.
    """
    check_shapes(q, k, v, True)
    scores = matmul_grouped(q, k.transpose(-2, -1))
    scores = scores * (1 / math.sqrt(q.shape[-1]))
    mask = opened_rows(q.shape[2], k.shape[2], q.device)
    scores = scores.masked_fill(~mask, -math.inf)
    probabilities = torch.softmax(scores, dim=-1)
    del scores
    return matmul_grouped(probabilities, v)


def opened_rows(q_len: int, kv_len: int, device: torch.device) -> Tensor:
    """Give a causal mask with the first row of each block of 64 left open.

    Args:
        q_len: queries.
        kv_len: keys.
        device: where the mask lies.

    Returns:
        (q_len, kv_len) of bool, True where the query may see the key.
    """
    mask = visible_keys(q_len, kv_len, device)
    mask[::BLOCK] = True
    return mask


def masked_on_diagonal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute naive causal attention by blocks of 64 queries, masking only the square on the diagonal.

    Args:
        q: (batch, heads, q_len, head_dim).
        k: (batch, kv_heads, kv_len, head_dim); kv_heads divides heads.
        v: (batch, kv_heads, kv_len, head_dim_v).

    Returns:
        (batch, heads, q_len, head_dim_v), in the dtype of the inputs.

    Raises:
        ValueError: shapes that do not fit each other.
    """
    check_shapes(q, k, v, True)
    offset = k.shape[2] - q.shape[2]
    blocks = []
    for start in range(0, q.shape[2], BLOCK):
        queries = q[:, :, start : start + BLOCK]
        rows = queries.shape[2]
        end = offset + start + rows
        scores = matmul_grouped(queries, k[:, :, :end].transpose(-2, -1))
        scores = scores * (1 / math.sqrt(q.shape[-1]))
        scores[..., -rows:].masked_fill_(~visible_keys(rows, rows, q.device), -math.inf)
        blocks.append(matmul_grouped(torch.softmax(scores, dim=-1), v[:, :, :end]))
    return torch.cat(blocks, dim=2)
