"""Implementations of attention that are measured, and the float64 reference they are checked against.

Tensors are (batch, heads, length, head_dim). K and V may have fewer heads than Q (grouped-query attention).
Causal means that the queries are the last q_len positions: query i sees the first kv_len - q_len + i + 1 keys
(bottom-right alignment). PyTorch's own `is_causal` starts at the first key instead, which is another function
as soon as q_len and kv_len differ.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

BACKENDS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
REFERENCE_BLOCK_BYTES = 32 * 2**20  # of float64 scores at a time


def naive_attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
    """Compute attention step by step: every line below makes a new tensor, as a first implementation does.

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
    scores = matmul_grouped(q, k.transpose(-2, -1))
    scores = scores * (1 / math.sqrt(q.shape[-1]))
    if causal and q.shape[2] > 1:
        mask = visible_keys(q.shape[2], k.shape[2], q.device)
        scores = scores.masked_fill(~mask, -math.inf)
    probabilities = torch.softmax(scores, dim=-1)
    del scores
    return matmul_grouped(probabilities, v)


def naive_inplace(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
    """Compute attention as `naive_attention` does, but scale and mask the one score tensor in place.

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
    scores = matmul_grouped(q, k.transpose(-2, -1))
    scores.mul_(1 / math.sqrt(q.shape[-1]))
    if causal and q.shape[2] > 1:
        ones = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
        hidden = ones.triu(diagonal=k.shape[2] - q.shape[2] + 1)
        del ones
        scores.masked_fill_(hidden, -math.inf)
    probabilities = torch.softmax(scores, dim=-1)
    del scores
    return matmul_grouped(probabilities, v)


def sdpa(q: Tensor, k: Tensor, v: Tensor, *, backend: str | None = None, causal: bool) -> Tensor:
    """Compute attention by PyTorch's scaled_dot_product_attention, with one backend or its default dispatch.

    Args:
        q: (batch, heads, q_len, head_dim).
        k: (batch, kv_heads, kv_len, head_dim); kv_heads divides heads.
        v: (batch, kv_heads, kv_len, head_dim_v).
        backend: "math", "flash", "efficient", "cudnn", or None to let PyTorch choose.
        causal: hide the keys after each query; the queries are the last q_len positions.

    Returns:
        (batch, heads, q_len, head_dim_v), in the dtype of the inputs.

    Raises:
        ValueError: an unknown backend, or shapes that do not fit each other.
        RuntimeError: PyTorch has no such kernel for these inputs; `kernels.refusal` gives its reasons.
    """
    check_shapes(q, k, v, causal)
    if backend is None:
        return _sdpa(q, k, v, causal)
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)} or None, got {backend!r}")
    with sdpa_kernel(BACKENDS[backend]):
        return _sdpa(q, k, v, causal)


def _sdpa(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """Call PyTorch's function so that causal is aligned to the last keys."""
    grouped = q.shape[1] != k.shape[1]
    masked = causal and q.shape[2] > 1
    if masked and q.shape[2] != k.shape[2]:
        # is_causal would align to the first keys. An explicit mask is right on every device; CUDA's flash
        # kernel takes none and refuses in its own words.
        mask = visible_keys(q.shape[2], k.shape[2], q.device)
        return scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=grouped)
    return scaled_dot_product_attention(q, k, v, is_causal=masked, enable_gqa=grouped)


def visible_keys(q_len: int, kv_len: int, device: torch.device) -> Tensor:
    """Give the causal mask, aligned to the last keys.

    Args:
        q_len: queries.
        kv_len: keys.
        device: where the mask lies.

    Returns:
        (q_len, kv_len) of bool, True where the query may see the key.
    """
    ones = torch.ones(q_len, kv_len, dtype=torch.bool, device=device)
    return ones.tril(diagonal=kv_len - q_len)


def matmul_grouped(a: Tensor, b: Tensor) -> Tensor:
    """Multiply heads by the KV head of their group.

    The group is folded into the rows, so that no K or V is copied.

    Args:
        a: (batch, heads, rows, n).
        b: (batch, kv_heads, n, columns).

    Returns:
        (batch, heads, rows, columns).
    """
    batch, heads, rows, _ = a.shape
    folded = a.reshape(batch, b.shape[1], -1, a.shape[-1])
    return (folded @ b).view(batch, heads, rows, b.shape[-1])


def check_shapes(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> None:
    """Refuse tensors that are not one attention call.

    Args:
        q: (batch, heads, q_len, head_dim).
        k: (batch, kv_heads, kv_len, head_dim).
        v: (batch, kv_heads, kv_len, head_dim_v).
        causal: whether a causal mask is wanted.

    Raises:
        ValueError: a wrong number of dimensions, or sizes that do not fit each other.
    """
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.ndim != 4:
            raise ValueError(f"{name} must be (batch, heads, length, head_dim), got {tuple(tensor.shape)}")
    if k.shape[:3] != v.shape[:3]:
        raise ValueError(
            f"k and v must have one batch, heads and length, got {k.shape[:3]} and {v.shape[:3]}"
        )
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ValueError(
            f"q and k must have one batch and head_dim, got {tuple(q.shape)} and {tuple(k.shape)}"
        )
    if q.shape[1] % k.shape[1]:
        raise ValueError(f"kv_heads must divide heads, got kv_heads={k.shape[1]} and heads={q.shape[1]}")
    if causal and k.shape[2] < q.shape[2]:
        raise ValueError(
            f"kv_len must be at least q_len when causal, got kv_len={k.shape[2]} and q_len={q.shape[2]}"
        )


def float64_device(device: torch.device) -> torch.device:
    """Give where float64 is computed for a device: on itself, or on the CPU where it has none.

    Args:
        device: where the inputs lie; Apple's GPUs and some of Intel's have no float64.

    Returns:
        The device, or the CPU.
    """
    if device.type == "xpu":
        able = bool(getattr(torch.xpu.get_device_properties(device), "has_fp64", True))
    else:
        able = device.type != "mps"
    return device if able else torch.device("cpu")


def reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool,
    rows: Tensor | None = None,
    window: int | None = None,
) -> Tensor:
    """Compute attention in float64, a block of queries of one KV head at a time, never all scores at once.

    Args:
        q: (batch, heads, q_len, head_dim), in any dtype: the values are promoted.
        k: (batch, kv_heads, kv_len, head_dim).
        v: (batch, kv_heads, kv_len, head_dim_v).
        causal: hide the keys after each query; the queries are the last q_len positions.
        rows: indices of the queries wanted, or None for all.
        window: keys that a causal query sees at most, its own included; None for all.

    Returns:
        (batch, heads, number of rows, head_dim_v) in float64; on the CPU for devices without float64.

    Raises:
        ValueError: shapes that do not fit each other.
    """
    check_shapes(q, k, v, causal)
    wide = float64_device(q.device)
    q, k, v = q.to(wide), k.to(wide), v.to(wide)
    wanted = torch.arange(q.shape[2]) if rows is None else rows
    wanted = wanted.to(q.device)
    output = q.new_empty(q.shape[0], q.shape[1], len(wanted), v.shape[3], dtype=torch.float64)
    group = q.shape[1] // k.shape[1]
    block = max(1, REFERENCE_BLOCK_BYTES // (8 * group * k.shape[2]))
    for sequence in range(q.shape[0]):
        for head in range(k.shape[1]):
            heads = slice(head * group, (head + 1) * group)
            keys, values = k[sequence, head].double(), v[sequence, head].double()
            for start in range(0, len(wanted), block):
                part = wanted[start : start + block]
                scores = q[sequence, heads, part].double() @ keys.T / math.sqrt(q.shape[3])
                if causal:
                    last_seen = part + (k.shape[2] - q.shape[2])
                    positions = torch.arange(k.shape[2], device=q.device)
                    unseen = positions > last_seen[:, None]
                    if window is not None:
                        unseen |= positions <= last_seen[:, None] - window
                    scores.masked_fill_(unseen, -math.inf)
                output[sequence, heads, start : start + block] = scores.softmax(dim=-1) @ values
    return output
