"""Run files of older schemas: what each lacked, and what is put in its place.

Schema 1 was written until runs could have titles. Its first files came from a lab that knew five experiments: their
points have neither `variant` nor `measures`, and their jobs no `quick`. Its last files have all three.
Schema 2 added `title`. All four have defaults, which Record.from_dict fills in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Fields = dict[str, Any]


def from_1(data: Fields) -> Fields:
    """Turn a run of schema 1 into one of schema 2.

    Args:
        data: as read from the file; it is left as it is.

    Returns:
        The run with the next schema's number; what it lacks takes its default.

    Raises:
        ValueError: it has a field that its schema did not have.
    """
    if "title" in data:
        raise ValueError("Run has schema 1 and a field 'title', which that schema did not have")
    return {**data, "schema": 2}


MIGRATIONS: dict[int, Callable[[Fields], Fields]] = {1: from_1}
"""By the older schema's number: what turns its fields into those of the next schema."""
