"""A count with its noun, in the singular where there is one."""

from __future__ import annotations

from lab.view.format import whole


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Write a count and what is counted, such as "1 sequence" and "2 sequences".

    Args:
        count: how many there are.
        noun: one of them.
        plural: several of them; None for the noun with an s.
    """
    return f"{whole(count)} {noun if count == 1 else plural or f'{noun}s'}"
