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


def verb(count: int, singular: str, plural: str) -> str:
    """The form of a verb that agrees with a count.

    Args:
        count: how many there are.
        singular: said of one, such as "fits".
        plural: said of none or several.
    """
    return singular if count == 1 else plural
