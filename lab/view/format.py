"""Numbers as text: bytes, seconds, FLOPs, tokens. SI units inside the lab, these words on the page.

GiB = 2^30 bytes and GB = 10^9 bytes are never confused: a switch chooses, and `other_bytes` says the
other.
"""

from __future__ import annotations

import math

BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
DECIMAL_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_SECOND_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_SCALES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def digits(value: float, figures: int = 3) -> str:
    """Write a number with so many significant figures, without an exponent, thousands grouped.

    Args:
        value: any finite number.
        figures: significant figures; digits before the decimal point are never dropped.
    """
    if value == 0:
        return "0"
    decimals = max(0, figures - 1 - math.floor(math.log10(abs(value))))
    # Rounding can add a digit (9.996 -> 10.0): ask again with the rounded value.
    decimals = max(0, figures - 1 - math.floor(math.log10(abs(round(value, decimals) or value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def bytes_text(count: float, binary: bool = True) -> str:
    """Write a number of bytes.

    Args:
        count: bytes.
        binary: KiB, MiB, GiB (powers of 1,024) or kB, MB, GB (powers of 1,000).
    """
    units = BINARY_UNITS if binary else DECIMAL_UNITS
    step = 1024 if binary else 1000
    place, value = 0, float(count)
    # 1,023.9 would be written "1,020 KiB": go up as soon as three figures round to the next unit.
    while place < len(units) - 1 and abs(value) >= step * (1 - 5e-4):
        value, place = value / step, place + 1
    return f"{digits(value)} {units[place]}"


def other_bytes(count: float, binary: bool = True) -> str:
    """The same bytes in the unit that was not chosen, for tooltips."""
    return bytes_text(count, not binary)


def seconds_text(seconds: float) -> str:
    """Write a time with its unit, from ns to hours."""
    if seconds >= 120:
        minutes = seconds / 60
        return f"{digits(minutes)} min" if minutes < 120 else f"{digits(minutes / 60)} h"
    for size, unit in _SECOND_UNITS:
        if seconds >= size * (1 - 5e-4):
            return f"{digits(seconds / size)} {unit}"
    return f"{digits(seconds / 1e-9)} ns" if seconds else "0 s"


def scaled(value: float, unit: str) -> str:
    """Write a count with an SI prefix, such as 1.2 TFLOPs or 250 GB/s.

    Args:
        value: the count in `unit`.
        unit: "FLOPs", "FLOP/s", "B/s", "parameters".
    """
    for size, prefix in _SCALES:
        if abs(value) >= size * (1 - 5e-4):
            return f"{digits(value / size)} {prefix}{unit}"
    return f"{digits(value)} {unit}"


def flops_text(flops: float) -> str:
    """Write a number of FLOPs."""
    return scaled(flops, "FLOPs")


def tokens_label(tokens: int) -> str:
    """The short name of a context length, as on the axes: 128, 1k, 128k. Powers of two only lose nothing by
    it."""
    return f"{tokens // 1024}k" if tokens >= 1024 and tokens % 1024 == 0 else f"{tokens}"


def whole(count: int) -> str:
    """Write an exact whole number, thousands grouped."""
    return f"{count:,}"


def times(ratio: float) -> str:
    """Write a ratio of two quantities, such as "11 times"."""
    return f"{digits(ratio, 2 if ratio < 100 else 3)} times"


def share(fraction: float) -> str:
    """Write a fraction as a percentage."""
    percent = 100 * fraction
    return f"{digits(percent, 2) if percent < 100 else digits(percent, 3)} %"
