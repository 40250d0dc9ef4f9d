"""The most memory one attention call holds at once, beyond its inputs: the stages of each implementation.

Inputs are excluded, the output is included. Every stage is the sum of the tensors alive in it, so the peak
can be
opened: `live_stages` names them. Scalars of a few bytes that PyTorch wraps on the way (12 at most) are left
    out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lab.cost.calls import AttentionCall, check_implementation

# PyTorch's CPU flash kernel: query block by query length, and the key block.
# Source: aten/src/ATen/native/cpu/FlashAttentionKernel.cpp, flash_attention_kernel_impl.
_CPU_QUERY_BLOCKS = ((768, 256), (192, 64), (1, 32))
_CPU_KEY_BLOCK = 512


class Stage(NamedTuple):
    """The tensors alive at one moment of a call: the stage's name and their bytes by name."""

    name: str
    tensors: dict[str, int]

    @property
    def live_bytes(self) -> int:
        """Bytes alive in this stage."""
        return sum(self.tensors.values())


def peak_extra_bytes(
    implementation: str,
    *,
    batch: int,
    heads: int,
    kv_heads: int,
    q_len: int,
    kv_len: int,
    head_dim: int,
    dtype: str,
    causal: bool,
    threads: int = 1,
    device: str = "cpu",
) -> int:
    """Predict the peak of memory that one inference call allocates beyond its inputs, output included.

    Args:
        implementation: "naive", "naive_inplace", "math", "flash" or "efficient".
        batch: sequences.
        heads: query heads.
        kv_heads: key/value heads; must divide heads.
        q_len: queries; the last q_len positions when causal.
        kv_len: keys.
        head_dim: width of a head.
        dtype: "fp64", "fp32", "fp16" or "bf16".
        causal: whether a causal mask is applied.
        threads: CPU threads; each holds a tile of the flash kernel's scratch.
        device: "cpu" or "cuda".

    Returns:
        Bytes. `peak_basis` says what the figure was checked against.

    Raises:
        ValueError: a bad size or name, or a call the implementation does not compute.
    """
    call = AttentionCall(
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        q_len=q_len,
        kv_len=kv_len,
        head_dim=head_dim,
        dtype=dtype,
        causal=causal,
        threads=threads,
        device=device,
    )
    return max(stage.live_bytes for stage in live_stages(implementation, call))


def live_stages(implementation: str, call: AttentionCall) -> tuple[Stage, ...]:
    """List the moments of a call that can be its peak, each with the tensors alive in it.

    Args:
        implementation: "naive", "naive_inplace", "math", "flash" or "efficient".
        call: the shape.

    Returns:
        The stages in the order they happen.

    Raises:
        ValueError: an unknown implementation, or a call it does not compute.
    """
    check_implementation(implementation, call)
    if implementation == "flash" and call.device == "cuda":
        return _flash_cuda(call)
    return _STAGES[implementation](call)


def peak_basis(implementation: str, device: str = "cpu") -> str:
    """Say what the closed form was checked against.

    Args:
        implementation: "naive", "naive_inplace", "math", "flash" or "efficient".
        device: "cpu" or "cuda".

    Returns:
        One clause for the page: what was compared, and how closely.
    """
    if device == "cpu":
        return "equals the profiler's allocation events, torch 2.13"
    if implementation in ("math", "efficient"):
        return "equals the chapter's four printed peaks on one CUDA card, fp16 causal"
    return "the same tensors as on a CPU; not checked on a CUDA card"


def cpu_flash_blocks(q_len: int, kv_len: int) -> tuple[int, int]:
    """Give the tile of PyTorch's CPU flash kernel.

    Args:
        q_len: queries.
        kv_len: keys.

    Returns:
        Query rows and keys of one tile.
    """
    rows = next(block for at_least, block in _CPU_QUERY_BLOCKS if q_len >= at_least)
    return min(q_len, rows), min(kv_len, _CPU_KEY_BLOCK)


def _naive(call: AttentionCall) -> tuple[Stage, ...]:
    """Stages of lab.measure's naive attention: every step makes a new tensor and drops the one before."""
    scores, output = call.scores * call.element, call.queries * call.element
    mask = {"mask": call.mask} if call.masked else {}
    inverted = {"inverted mask": call.mask} if call.masked else {}
    return (
        Stage("scale", {"scores": scores, "scaled scores": scores}),
        Stage("masked_fill", {"scores": scores, "masked scores": scores, **mask, **inverted}),
        Stage("softmax", {"masked scores": scores, "probabilities": scores, **mask}),
        Stage("PV", {"probabilities": scores, "output": output, **mask}),
    )


def _naive_inplace(call: AttentionCall) -> tuple[Stage, ...]:
    """Stages of lab.measure's naive attention in place: only the softmax makes a second tensor."""
    scores, output = call.scores * call.element, call.queries * call.element
    mask = {"mask": call.mask} if call.masked else {}
    return (
        Stage("softmax", {"scores": scores, "probabilities": scores, **mask}),
        Stage("PV", {"probabilities": scores, "output": output, **mask}),
    )


def _math(call: AttentionCall) -> tuple[Stage, ...]:
    """Stages of PyTorch's math backend, which computes narrow inputs in the accumulator's type.

    Source: _scaled_dot_product_attention_math in aten/src/ATen/native/transformers/attention.cpp.
    """
    wide = call.accumulator
    scores, queries = call.scores * wide, call.queries * wide
    keys, repeated = call.keys * wide, call.repeated_keys * wide
    kept = {"promoted q, k, v": queries + 2 * keys} if call.promoted else {}
    if call.grouped:
        kept["repeated k, v"] = 2 * repeated
    if call.explicit_mask:
        kept |= _explicit_mask(call)
    elif call.masked:
        kept["mask as numbers"] = call.mask * wide
    kept["scaled q"] = queries
    narrow = (call.scores + call.queries) * call.element if call.promoted else 0
    return (
        Stage("QKᵀ", {**kept, "scaled k": repeated, "scores": scores}),
        Stage(
            "safe softmax",
            {
                **kept,
                "scores": scores,
                "probabilities": scores,
                "is -inf": call.scores,
                "all -inf": call.rows,
            },
        ),
        Stage("PV", {**kept, "probabilities": scores, "output": queries, "narrowed": narrow}),
    )


def _explicit_mask(call: AttentionCall) -> dict[str, int]:
    """The boolean mask that is passed in, and what scaled_dot_product_attention makes of it."""
    return {"mask": call.mask, "mask as numbers": call.mask * call.element}


def _flash_cpu(call: AttentionCall) -> tuple[Stage, ...]:
    """Stages of PyTorch's CPU flash kernel: the output, one number a row, a tile of scratch per thread."""
    rows, keys = cpu_flash_blocks(call.q_len, call.kv_len)
    tile = call.accumulator * rows * (keys + 2 + call.head_dim)
    tensors = {
        "output": call.queries * call.element,
        "log-sum-exp": call.rows * call.accumulator,
        "tiles": call.threads * tile,
    }
    if call.promoted:
        tensors["narrowed tiles"] = call.threads * call.element * rows * keys
    if call.explicit_mask:
        tensors |= _explicit_mask(call)
    return (Stage("fused", tensors),)


def _flash_cuda(call: AttentionCall) -> tuple[Stage, ...]:
    """Stages of the CUDA flash kernel: scratch is on the chip; split-KV partial results are not counted."""
    return (Stage("fused", {"output": call.queries * call.element, "log-sum-exp": call.rows * 4}),)


def _efficient(call: AttentionCall) -> tuple[Stage, ...]:
    """Stages of the memory-efficient kernel: without gradients it keeps no log-sum-exp."""
    return (Stage("fused", {"output": call.queries * call.element}),)


_STAGES: dict[str, Callable[[AttentionCall], tuple[Stage, ...]]] = {
    "naive": _naive,
    "naive_inplace": _naive_inplace,
    "math": _math,
    "flash": _flash_cpu,
    "efficient": _efficient,
}
