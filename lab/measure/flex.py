"""FlexAttention: PyTorch compiles a fused kernel for a mask written in Python, where a compiler is present.

Uncompiled it materialises the scores, which is not what is asked for: without a compiler the call refuses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch import Tensor

from lab.measure.attention import check_shapes
from lab.measure.compiling import compiled


def flex(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
    """Compute attention by compiled FlexAttention, with a block mask when causal.

    Args:
        q: (batch, heads, q_len, head_dim).
        k: (batch, kv_heads, kv_len, head_dim); kv_heads divides heads.
        v: (batch, kv_heads, kv_len, head_dim_v).
        causal: hide the keys after each query; the queries are the last q_len positions.

    Returns:
        (batch, heads, q_len, head_dim_v), in the dtype of the inputs.

    Raises:
        ValueError: shapes that do not fit each other.
        RuntimeError: there is no compiler, or FlexAttention does not take these inputs.
    """
    check_shapes(q, k, v, causal)
    mask = None
    if causal and q.shape[2] > 1:
        mask = _causal_blocks(q.shape[2], k.shape[2], str(q.device))
    output: Tensor = _compiled()(q, k, v, block_mask=mask, enable_gqa=q.shape[1] != k.shape[1])
    return output


@functools.cache
def _compiled() -> Callable[..., Tensor]:
    """Load and wrap FlexAttention once: it brings in the compiler, which takes seconds."""
    from torch.nn.attention.flex_attention import flex_attention

    return compiled(flex_attention)


@functools.lru_cache(maxsize=8)
def _causal_blocks(q_len: int, kv_len: int, device: str) -> Any:
    """Give the blocks a causal mask leaves, aligned to the last keys; made once a shape, as models do."""
    from torch.nn.attention.flex_attention import create_block_mask

    offset = kv_len - q_len

    def seen(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return query + offset >= key

    return create_block_mask(seen, None, None, q_len, kv_len, device=device)
