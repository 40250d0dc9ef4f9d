"""Readings of which kernel ran, what it holds, how accurate it is, and what a first call costs."""

from __future__ import annotations

from collections.abc import Sequence

from lab.cost.formulas import BYTES_PER_ELEMENT, score_bytes
from lab.runs.point import Point
from lab.runs.readings.words import at, called, groups, one, seconds, size, timed, told, versus

MATH = "attention_math"


def backends(points: Sequence[Point]) -> list[str]:
    """Say which backends ran, which refused and why, and where PyTorch chose the slow one without a word.

    Args:
        points: of the backends experiment.

    Returns:
        Sentences.
    """
    said = []
    for name, found in groups(points, lambda point: point.implementation).items():
        ran = [point for point in found if point.kernel]
        said.append(f"{name} {_ran(found, ran)}.")
        for reason, refused in groups((p for p in found if p.reason), lambda point: point.reason).items():
            of = "every kind" if len(refused) == len(found) else _variants(refused)
            said.append(f"{name} refused ({of}): {reason}")
    silent = [p for p in points if p.implementation == "sdpa" and p.kernel and MATH in p.kernel]
    if silent:
        said.append(
            f"Left to choose, PyTorch took the math backend, without a word, for: {_variants(silent)}."
        )
    return said


def _ran(found: Sequence[Point], ran: Sequence[Point]) -> str:
    if not ran:
        return "never ran"
    if len(found) == 1:
        return f"ran in the one kind of call tried ({_variants(found)})"
    if len(ran) == len(found):
        return f"ran in all {len(found)} kinds of call"
    return f"ran in {len(ran)} of {len(found)} kinds of call ({_variants(ran)})"


def _variants(points: Sequence[Point]) -> str:
    return ", ".join(called(point) for point in points)


def memory(points: Sequence[Point]) -> list[str]:
    """Say how many score tensors each implementation holds at its peak, at the longest length.

    Args:
        points: of the memory experiment.

    Returns:
        Sentences.
    """
    said = []
    for (name, _), found in groups(points, lambda point: (point.implementation, point.dtype)).items():
        known = [point for point in found if point.peak_extra_bytes]
        if not known:
            continue
        point = max(known, key=lambda each: each.kv_len * each.batch)
        element = BYTES_PER_ELEMENT[point.dtype]
        tensor = int(score_bytes(point.batch, point.heads, point.q_len, point.kv_len, element))
        peak = point.peak_extra_bytes or 0
        said.append(
            f"{name} at {at(point)} holds {size(peak)} beside its inputs: {peak / tensor:.3g} score tensors of "
            f"{size(tensor)}."
        )
    return said


def accuracy(points: Sequence[Point]) -> list[str]:
    """Say what fp32 intermediates change of naive attention: its error and its time (exercise 7).

    Args:
        points: of the accuracy experiment.

    Returns:
        Sentences.
    """
    said = []
    for (dtype, kind, _), found in groups(points, lambda p: (p.dtype, p.variant, p.kv_len)).items():
        narrow, wide = one(found, implementation="naive"), one(found, implementation="naive_fp32")
        if kind is None or narrow is None or wide is None or dtype == "fp32":
            continue
        errors = [point.measures.get("rms_relative_error") for point in (narrow, wide)]
        if errors[0] is None or not errors[1]:
            continue
        ratio = versus(wide, narrow)
        time = "" if ratio is None else f"; time over time {told(ratio)}"
        peak = _peaks(narrow, wide)
        said.append(
            f"{dtype}, {kind}: fp32 intermediates bring the error from {errors[0]:.2g} to {errors[1]:.2g} of the "
            f"output's size ({errors[0] / errors[1]:.1f} times less){time}{peak}."
        )
    return said


def _peaks(narrow: Point, wide: Point) -> str:
    if not narrow.peak_extra_bytes or not wide.peak_extra_bytes:
        return ""
    return f"; peak over peak {wide.peak_extra_bytes / narrow.peak_extra_bytes:.3g}"


def first_call(points: Sequence[Point]) -> list[str]:
    """Say how a benchmark of one call misleads.

    Args:
        points: of the first-call experiment.

    Returns:
        Sentences.
    """
    said = []
    for found in groups(timed(points), lambda p: (p.batch, p.kv_len, p.dtype)).values():
        for point in found:
            timing = point.timing
            if timing is None or timing.first_call_s is None or not timing.median_s:
                continue
            said.append(
                f"{point.implementation} at {at(point)}: the first call of a process takes "
                f"{seconds(timing.first_call_s)}, a warm one {seconds(timing.median_s)}: "
                f"{timing.first_call_s / timing.median_s:.3g} times as long."
            )
        said += _misled(found)
    return said


def _misled(found: Sequence[Point]) -> list[str]:
    first, second = one(found, implementation="naive"), one(found, implementation="sdpa")
    if first is None or second is None or first.timing is None or second.timing is None:
        return []
    cold = [point.timing.first_call_s for point in (first, second) if point.timing]
    if not cold[0] or not cold[1]:
        return []
    warm = first.timing.median_s / second.timing.median_s
    return [
        f"By one call each, naive over sdpa is {cold[0] / cold[1]:.3g}; warm it is {warm:.3g} (at {at(first)})."
    ]
