"""Sizes past which a kernel is known to be wrong or to refuse, so that no such point is timed or believed."""

from dataclasses import dataclass

from lab.cost.storage import whole

MASK_OFFSETS = 2**32
"""Query-key pairs of one head whose offset a 32-bit unsigned multiply still reaches: 65,536 squared."""

BIAS_STRIDE = 2**31
"""Elements of one sequence's bias, (heads, q_len, kv_len), whose stride no longer fits 32 signed bits."""


@dataclass(frozen=True)
class KernelLimit:
    """What goes wrong beyond a limit: "wrong" answers without an error, or a call that is "refused"."""

    effect: str
    reason: str
    source: str


def kernel_limit(
    implementation: str,
    *,
    heads: int,
    q_len: int,
    kv_len: int,
    causal: bool,
    bias: bool = False,
    device: str = "cuda",
) -> KernelLimit | None:
    """Say whether a call is beyond a known limit of the kernel that would run it.

    Args:
        implementation: name of the implementation; only "efficient" on CUDA has known limits.
        heads: query heads.
        q_len: queries.
        kv_len: keys.
        causal: whether the causal mask is on.
        bias: whether an explicit mask or bias tensor is passed.
        device: "cuda", "cpu" or another PyTorch device type; an index as in "cuda:1" is allowed.

    Returns:
        The limit that is broken, or None.

    Raises:
        ValueError: a size below 1.

    Source: pytorch/pytorch issues 162588 and 187227 (offsets; fixed by pull request 187225), 107959 (stride).
    """
    for name, value in (("heads", heads), ("q_len", q_len), ("kv_len", kv_len)):
        whole(name, value)
    if implementation != "efficient" or not device.startswith("cuda"):
        return None
    if (causal or bias) and q_len * kv_len > MASK_OFFSETS:
        return _wrapped_offsets(q_len, kv_len)
    if bias and heads * q_len * kv_len >= BIAS_STRIDE:
        return _overflowing_stride(heads * q_len * kv_len)
    return None


def _wrapped_offsets(q_len: int, kv_len: int) -> KernelLimit:
    return KernelLimit(
        "wrong",
        f"{q_len:,} x {kv_len:,} masked scores a head: past {MASK_OFFSETS:,} (65,536 squared) the efficient "
        f"kernel's mask offsets wrap around and later rows are wrong without an error",
        "pytorch/pytorch issue 162588",
    )


def _overflowing_stride(elements: int) -> KernelLimit:
    return KernelLimit(
        "refused",
        f"the bias has {elements:,} elements a sequence; the efficient kernel of PyTorch 2.0 holds its "
        f"stride in 32 bits and takes fewer than {BIAS_STRIDE:,}",
        "pytorch/pytorch issue 107959 (2023)",
    )
