"""Quantised caches: numbers of K and V stored in 8 or 4 bits, as serving engines store them, and read back.

Each type is stored as its engine documents it, so that bytes and errors belong together: what is rounded here
is what `lab.cost.storage` weighs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lab.cost.storage import stored_bytes

BLOCK = 32  # numbers that share a scale in ggml's types
FP8 = torch.float8_e4m3fn


@dataclass(frozen=True)
class Stored:
    """A tensor as a cache holds it.

    Args:
        kind: name of the storage type, as in lab.cost.storage.
        codes: the stored numbers, one to a byte here even where an engine packs two.
        scales: what codes are multiplied by.
        shape: of the tensor.
        dtype: that is read back.
    """

    kind: str
    codes: Tensor
    scales: Tensor
    shape: torch.Size
    dtype: torch.dtype

    @property
    def nbytes(self) -> int:
        """Bytes an engine stores, packed, scales included."""
        return int(stored_bytes(self.shape.numel(), self.kind, self.shape[-1]))

    def read(self) -> Tensor:
        """Give the numbers back in the dtype they came in."""
        wide = self.codes.to(torch.float32) * self.scales
        return wide.reshape(self.shape).to(self.dtype)


def store(tensor: Tensor, kind: str) -> Stored:
    """Round a tensor of K or V to a storage type.

    Args:
        tensor: (batch, kv_heads, kv_len, head_dim).
        kind: one of `KINDS`.

    Returns:
        What a cache would hold.

    Raises:
        ValueError: an unknown type, or a head_dim that is not a whole number of blocks.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    wide = tensor.to(torch.float32)
    if kind in ("q8_0", "q4_0"):
        if tensor.shape[-1] % BLOCK:
            raise ValueError(f"head_dim must be a multiple of {BLOCK} for {kind}, got {tensor.shape[-1]}")
        wide = wide.unflatten(-1, (-1, BLOCK))
    codes, scales = KINDS[kind](wide)
    return Stored(kind, codes, scales, tensor.shape, tensor.dtype)


def _int8(wide: Tensor) -> tuple[Tensor, Tensor]:
    """One fp32 scale for a token and head. Source: vLLM's INT8_PER_TOKEN_HEAD."""
    scales = _largest(wide) / 127
    return _codes(wide, scales, 127), scales


def _q8_0(wide: Tensor) -> tuple[Tensor, Tensor]:
    """One fp16 scale for 32 numbers. Source: ggml, quantize_row_q8_0_ref."""
    exact = _largest(wide) / 127
    return _codes(wide, exact, 127), exact.half().float()


def _q4_0(wide: Tensor) -> tuple[Tensor, Tensor]:
    """Sixteen levels, the extreme exact, one fp16 scale for 32. Source: ggml, quantize_row_q4_0_ref."""
    extreme = wide.gather(-1, wide.abs().argmax(dim=-1, keepdim=True))
    exact = extreme / -8
    inverse = torch.where(exact == 0, 0.0, 1 / exact)
    codes = (wide * inverse + 8.5).floor_().clamp_(0, 15).sub_(8)
    return codes.to(torch.int8), exact.half().float()


def _fp8(wide: Tensor) -> tuple[Tensor, Tensor]:
    """Eight-bit floats (e4m3), one scale for the whole tensor. Source: vLLM, FP8_PER_TENSOR."""
    scale = wide.abs().max().clamp(min=torch.finfo(torch.float32).tiny) / torch.finfo(FP8).max
    return (wide / scale).to(FP8), scale


def _largest(wide: Tensor) -> Tensor:
    return wide.abs().amax(dim=-1, keepdim=True)


def _codes(wide: Tensor, scales: Tensor, most: int) -> Tensor:
    """Divide by the scale and round; a row of zeros stays zero."""
    inverse = torch.where(scales == 0, 0.0, 1 / scales)
    return (wide * inverse).round_().clamp_(-most, most).to(torch.int8)


KINDS: dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]] = {
    "fp8": _fp8,
    "int8": _int8,
    "q8_0": _q8_0,
    "q4_0": _q4_0,
}
"""How each storage type rounds, by its name in lab.cost.storage."""
