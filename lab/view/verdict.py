"""Which of two measured times is shorter: said only where noise and spread allow it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from lab.view.format import seconds_text, times, tokens_label
from lab.view.frames import Mark
from lab.view.points import clean


def alike(first: Mark, second: Mark) -> bool:
    """Whether two times are the same as far as their quartiles tell, or in the figures that are written.

    Args:
        first: a time with its quartiles.
        second: another.
    """
    overlap = first.low <= second.high and second.low <= first.high
    return overlap or times(max(first.y, second.y) / min(first.y, second.y)) == times(1.0)


def against(marks: Iterable[Mark], slow: str, fast: str, where: str, context: int) -> str | None:
    """How naive attention and SDPA compare at a context, else at the nearest that both were timed at in quiet.

    Args:
        marks: of one device.
        slow: key of naive attention's series.
        fast: key of SDPA's.
        where: the device, such as "on this machine".
        context: the scenario's, in tokens.

    Returns:
        A sentence; None where no context has a clean time of both.
    """
    timed = {(mark.series, mark.x): mark for mark in clean(marks)}
    both = [length for series, length in timed if series == slow and (fast, length) in timed]
    if not both:
        return None
    at = min(both, key=lambda length: (abs(math.log(length / context)), length))
    naive, fused = timed[slow, at], timed[fast, at]
    label = tokens_label(int(at))
    said = (
        f"At T = {label}" + (f", of those timed the nearest to {tokens_label(context)}," * (at != context))
        + f" naive attention took {seconds_text(naive.y)} {where}, SDPA {seconds_text(fused.y)}"
    )  # fmt: skip
    if alike(naive, fused):
        return f"{said}: as fast as each other, as far as the spread tells"
    if naive.y > fused.y:
        return f"{said}: {times(naive.y / fused.y)} faster for the same result"
    return f"{said}: here the fused kernel does not win"
