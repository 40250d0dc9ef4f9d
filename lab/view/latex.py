"""Numbers and units inside formulas."""

from __future__ import annotations

from lab.view.format import bytes_text, flops_text, seconds_text


def number(count: int) -> str:
    """An exact whole number, thousands grouped."""
    return f"{count:,}".replace(",", "{,}")


def quantity(text: str) -> str:
    """A number with its unit, as lab.view.format writes it, set upright."""
    value, _, unit = text.partition(" ")
    value = value.replace(",", "{,}")
    return rf"{value}\ \text{{{unit}}}" if unit else value


def byte_count(count: float, binary: bool) -> str:
    """Bytes."""
    return quantity(bytes_text(count, binary))


def flop_count(flops: float) -> str:
    """FLOPs."""
    return quantity(flops_text(flops))


def time(seconds: float) -> str:
    """Seconds."""
    return quantity(seconds_text(seconds))
