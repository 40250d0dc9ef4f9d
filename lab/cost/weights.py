"""Bytes of parameters: a dtype by name, or any exact number of bytes for one parameter (0.5 for 4 bits)."""

from __future__ import annotations

from fractions import Fraction

from lab.cost.exact import Number, byte_ratio
from lab.cost.formulas import element_bytes


def stored_weights(parameters: int, weight_type: str | Number) -> int:
    """Weigh parameters.

    Args:
        parameters: how many.
        weight_type: a dtype name, or bytes of one parameter.

    Returns:
        Bytes, the last one whole.

    Raises:
        ValueError: an unknown dtype, a size that is not positive.
    """
    size = parameter_bytes(weight_type)
    return -(-parameters * size.numerator // size.denominator)


def parameter_bytes(weight_type: str | Number) -> Fraction:
    """Give the bytes of one parameter, exactly.

    Args:
        weight_type: a dtype name, or bytes of one parameter.

    Returns:
        Bytes.

    Raises:
        ValueError: an unknown dtype, a size that is not one positive number.
    """
    if isinstance(weight_type, str):
        return Fraction(element_bytes(weight_type))
    numerator, denominator = byte_ratio("weight_type", weight_type)
    if not isinstance(numerator, int):
        raise ValueError(f"weight_type must be one dtype name or number, got {weight_type!r}")
    return Fraction(numerator, denominator)
