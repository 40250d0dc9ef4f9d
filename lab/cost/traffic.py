"""What each implementation moves: its passes over named tensors, with FLOPs and bytes.

The lists state what really runs, hidden passes included: `masked_fill` clones its input and then fills it,
the math backend's safe softmax looks for rows of -inf, narrow types are promoted and narrowed again. An
operand counts at the size it is broadcast to (a mask shared by 12 heads is read 12 times), an operand written
in place counts as read and written. What a cache saves is not in these figures. Tests pin the eager functions
to a trace of meta tensors and the composite kernels to the profiler's allocation events.
"""

from __future__ import annotations

from typing import NamedTuple

from lab.cost.calls import AttentionCall, check_implementation
from lab.cost.formulas import attention_pairs
from lab.cost.peaks import live_stages, peak_basis, peak_extra_bytes
from lab.cost.tiles import block_pairs, cpu_tile

__all__ = ["Operation", "live_stages", "operations", "peak_basis", "peak_extra_bytes"]


class Operation(NamedTuple):
    """One pass over tensors: matmul FLOPs (0 for elementwise work) and the bytes it reads and writes."""

    name: str
    flops: int
    read_bytes: int
    written_bytes: int


def operations(
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
) -> tuple[Operation, ...]:
    """List what one inference call does, in order.

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
        threads: CPU threads (the passes do not depend on them).
        device: "cpu" or "cuda".

    Returns:
        The passes. Fused kernels are one: on the CPU with the FLOPs of the tiles that PyTorch's kernel
        executes, on CUDA with the FLOPs of the needed pairs, which is a lower count (its tile depends on the
        kernel).

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
    check_implementation(implementation, call)
    if implementation == "naive":
        return _naive(call)
    if implementation == "naive_inplace":
        return _naive_inplace(call)
    return _math(call) if implementation == "math" else _fused(implementation, call)


def _mask_passes(call: AttentionCall) -> list[Operation]:
    """Build the boolean mask: ones, then the triangle kept."""
    return [
        Operation("mask: ones", 0, 0, call.mask),
        Operation("mask: triangle", 0, call.mask, call.mask),
    ]


def _naive(call: AttentionCall) -> tuple[Operation, ...]:
    size, scores = call.element, call.scores * call.element
    passes = [_qk(call, size, call.keys), Operation("scale", 0, scores, scores)]
    if call.masked:
        passes += [
            *_mask_passes(call),
            Operation("mask: invert", 0, call.mask, call.mask),
            Operation("masked_fill: clone", 0, scores, scores),
            Operation("masked_fill: fill", 0, scores + call.scores, scores),
        ]
    return (*passes, Operation("softmax", 0, scores, scores), _pv(call, size, call.keys))


def _naive_inplace(call: AttentionCall) -> tuple[Operation, ...]:
    size, scores = call.element, call.scores * call.element
    passes = [_qk(call, size, call.keys), Operation("scale", 0, scores, scores)]
    if call.masked:
        passes += [*_mask_passes(call), Operation("masked_fill", 0, scores + call.scores, scores)]
    return (*passes, Operation("softmax", 0, scores, scores), _pv(call, size, call.keys))


def _math(call: AttentionCall) -> tuple[Operation, ...]:
    size, wide = call.element, call.accumulator
    scores, queries, repeated = call.scores * wide, call.queries * wide, call.repeated_keys * wide
    inputs = call.queries + 2 * call.keys
    passes = []
    if call.promoted:
        passes.append(Operation("promote q, k, v", 0, inputs * size, inputs * wide))
    passes.append(Operation("scale q", 0, queries, queries))
    mask_size = size if call.explicit_mask else wide
    if call.masked:
        passes += [*_mask_passes(call), Operation("mask as numbers", 0, call.mask, call.mask * mask_size)]
    if call.grouped:
        passes.append(Operation("repeat k, v", 0, 2 * repeated, 2 * repeated))
    passes += [Operation("scale k", 0, repeated, repeated), _qk(call, wide, call.repeated_keys)]
    if call.masked:
        if mask_size != wide:
            passes.append(Operation("promote mask", 0, call.mask * mask_size, call.mask * wide))
        passes.append(Operation("add mask", 0, 2 * scores, scores))
    passes += [
        Operation("safe softmax: softmax", 0, scores, scores),
        Operation("safe softmax: is -inf", 0, scores, call.scores),
        Operation("safe softmax: all -inf", 0, call.scores, call.rows),
        Operation("safe softmax: where", 0, scores + call.scores, scores),
        _pv(call, wide, call.repeated_keys),
    ]
    if call.promoted:
        passes.append(Operation("narrow probabilities (unused)", 0, scores, call.scores * size))
        passes.append(Operation("narrow output", 0, queries, call.queries * size))
    return tuple(passes)


def _fused(implementation: str, call: AttentionCall) -> tuple[Operation, ...]:
    """One pass: Q, K and V read once (later re-reads of K and V hit caches), the output written once."""
    read = (call.queries + 2 * call.keys) * call.element
    written = call.queries * call.element
    if implementation == "flash":
        written += call.rows * call.accumulator  # the log-sum-exp, always formed
    passes: list[Operation] = []
    if call.explicit_mask:  # nothing is skipped, and each head reads the mask
        passes = [*_mask_passes(call), Operation("mask as numbers", 0, call.mask, call.mask * call.element)]
        read += call.scores * call.element
    flops = 4 * call.batch * call.heads * _fused_pairs(call) * call.head_dim
    return (*passes, Operation("fused attention", flops, read, written))


def _fused_pairs(call: AttentionCall) -> int:
    """Pairs a fused kernel scores: on the CPU whole tiles; on CUDA those needed, a lower count."""
    skips = call.masked and not call.explicit_mask
    if call.device == "cpu":
        return sum(block_pairs(call.q_len, call.kv_len, cpu_tile(call.q_len, call.kv_len), skips))
    return int(attention_pairs(call.q_len, call.kv_len, skips))


def _qk(call: AttentionCall, size: int, keys: int) -> Operation:
    flops = 2 * call.scores * call.head_dim
    return Operation("QKᵀ", flops, (call.queries + keys) * size, call.scores * size)


def _pv(call: AttentionCall, size: int, keys: int) -> Operation:
    flops = 2 * call.scores * call.head_dim
    return Operation("PV", flops, (call.scores + keys) * size, call.queries * size)
