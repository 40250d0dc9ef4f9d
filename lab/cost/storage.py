"""How the numbers of a cache are stored: bytes of a row, scales counted.

A row is what is quantised together: the K (or V) vector of one token in one head, or the latent vector of one
token. It must be a whole number of blocks, as in the engines; a row that is not is refused, never rounded.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from lab.cost.exact import Count, count, evaluate

_IEEE = "IEEE 754; bfloat16: 8-bit exponent in 16 bits"
_GGML = "ggml, ggml-common.h (block_{}); the gguf package's GGML_QUANT_SIZES 0.19"
_VLLM = "vLLM, kv_cache_interface.py (KVQuantMode.{})"


def whole(name: str, value: Any) -> int:
    """Check one argument that must be a single whole number, not an array.

    Args:
        name: the argument's name, for the message.
        value: a whole number of at least 1.

    Returns:
        The number.

    Raises:
        ValueError: names the argument, the value and what is allowed.
    """
    checked = count(name, value)
    if not isinstance(checked, int):
        raise ValueError(f"{name} must be one whole number, got an array of {np.size(value)}")
    return checked


@dataclass(frozen=True)
class StorageType:
    """A way to store numbers: blocks of `block_elements` in `block_bytes`, plus `row_bytes` once a row."""

    name: str
    block_elements: int
    block_bytes: int
    source: str
    row_bytes: int = 0
    what: str = ""

    def row(self, elements: int) -> int:
        """Weigh one row.

        Args:
            elements: numbers in the row, for instance head_dim.

        Returns:
            Bytes, scales included.

        Raises:
            ValueError: the row is not a whole number of blocks.

        Source: llama.cpp stops with "K cache type q8_0 with block size 32 does not divide n_embd_head_k".
        """
        if whole("elements", elements) % self.block_elements:
            raise ValueError(
                f"elements must be a multiple of the {self.block_elements}-element block of {self.name}, "
                f"got a row of {elements}"
            )
        return elements // self.block_elements * self.block_bytes + self.row_bytes

    def bytes_per_element(self, row_elements: int) -> Fraction:
        """Average the bytes of one number over a row, scales included.

        Args:
            row_elements: numbers in the row.

        Returns:
            Bytes per number, exactly: 34/32 for q8_0.

        Raises:
            ValueError: as `row`.
        """
        return Fraction(self.row(row_elements), row_elements)


def _ggml(name: str, elements: int, size: int, what: str) -> StorageType:
    return StorageType(name, elements, size, _GGML.format(name), what=what)


STORAGE: dict[str, StorageType] = {
    kind.name: kind
    for kind in (
        StorageType("fp64", 1, 8, _IEEE, what="64-bit float"),
        StorageType("fp32", 1, 4, _IEEE, what="32-bit float"),
        StorageType("fp16", 1, 2, _IEEE, what="16-bit float"),
        StorageType("bf16", 1, 2, _IEEE, what="16-bit float with the range of fp32"),
        StorageType(
            "fp8",
            1,
            1,
            _VLLM.format("FP8_PER_TENSOR"),
            what="8-bit float, one scale for a whole tensor: nothing a token",
        ),
        StorageType(
            "fp8_block",
            128,
            132,
            "DeepSeek-V3.2 in FlashMLA and SGLang: 128 fp8 numbers and one fp32 scale",
            what="8-bit float, an fp32 scale for 128 numbers",
        ),
        StorageType(
            "int8",
            1,
            1,
            _VLLM.format("INT8_PER_TOKEN_HEAD"),
            row_bytes=4,
            what="8-bit integer, an fp32 scale a row",
        ),
        StorageType(
            "int4",
            2,
            1,
            "vLLM, triton_attn.py customize_spec (KVQuantMode.INT4_PER_TOKEN_HEAD)",
            row_bytes=4,
            what="two 4-bit integers a byte, 4 bytes of scale and zero point a row",
        ),
        _ggml("q8_0", 32, 34, "8 bits, an fp16 scale for 32 numbers"),
        _ggml("q5_1", 32, 24, "5 bits, an fp16 scale and minimum for 32 numbers"),
        _ggml("q5_0", 32, 22, "5 bits, an fp16 scale for 32 numbers"),
        _ggml("q4_1", 32, 20, "4 bits, an fp16 scale and minimum for 32 numbers"),
        _ggml("q4_0", 32, 18, "4 bits, an fp16 scale for 32 numbers"),
        _ggml("iq4_nl", 32, 18, "4 bits, uneven steps, an fp16 scale for 32 numbers"),
        _ggml("q1_0", 128, 18, "1 bit, an fp16 scale for 128 numbers"),
        StorageType(
            "q8_kv",
            1,
            1,
            "ikawrakow/ik_llama.cpp pull requests 208 (one scale a row) and 240 (8 bytes a row as printed)",
            row_bytes=8,
            what="8 bits, one scale a row and no blocks",
        ),
    )
}
"""The storage types by name."""

ALIASES: dict[str, str] = {
    "f64": "fp64",
    "f32": "fp32",
    "f16": "fp16",
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "int8_per_token_head": "int8",
    "int4_per_token_head": "int4",
}
"""Other names the engines and PyTorch use for the same storage."""


def storage_type(name: str | StorageType) -> StorageType:
    """Look up a storage type.

    Args:
        name: a name of STORAGE or ALIASES, in any case, or a StorageType of your own.

    Returns:
        The storage type.

    Raises:
        ValueError: an unknown name.
    """
    if isinstance(name, StorageType):
        return name
    key = name.lower() if isinstance(name, str) else ""
    key = ALIASES.get(key, key)
    if key not in STORAGE:
        raise ValueError(f"storage type must be one of {', '.join(STORAGE)}, got {name!r}")
    return STORAGE[key]


def stored_bytes(elements: Any, storage: str | StorageType, row_elements: int | None = None) -> Count:
    """Weigh many numbers in one storage type.

    Args:
        elements: numbers stored; an integer or an integer array.
        storage: name of the storage type.
        row_elements: numbers in a row; needed only by types that add bytes once a row (int8, int4, q8_kv).

    Returns:
        Bytes, exactly, scales included.

    Raises:
        ValueError: elements is not a whole number of rows or blocks; a row size that is needed is missing.
    """
    kind = storage_type(storage)
    if row_elements is None and kind.row_bytes:
        raise ValueError(
            f"row_elements must be given for {kind.name}, which adds {kind.row_bytes} bytes a row"
        )
    unit = kind.block_elements if row_elements is None else row_elements
    unit_bytes = kind.row(unit)
    numbers = count("elements", elements)
    if np.any(numbers % unit):
        raise ValueError(f"elements must be a multiple of {unit} for {kind.name}, got {elements!r}")
    return evaluate(lambda n: n // unit * unit_bytes, numbers, headroom=unit_bytes)
