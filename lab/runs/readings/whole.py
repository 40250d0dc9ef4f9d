"""Readings of a whole model, and of a training step."""

from __future__ import annotations

from collections.abc import Sequence

from lab.runs.point import Point
from lab.runs.readings.terms import alike
from lab.runs.readings.words import at, groups, one, size, timed, told, versus


def model(points: Sequence[Point]) -> list[str]:
    """Say what SDPA changes of a whole model: time, peak memory and logits, by kind of output (exercise 6).

    Args:
        points: of the model experiment.

    Returns:
        Sentences.
    """
    said = []
    for (wanted, *_), found in groups(points, lambda p: (p.variant, p.batch, p.kv_len, p.dtype)).items():
        eager, sdpa = one(found, implementation="eager"), one(found, implementation="sdpa")
        if wanted is None or eager is None or sdpa is None or eager.kernel is None or sdpa.kernel is None:
            continue
        parts = []
        ratio = versus(sdpa, eager)
        if ratio is not None:
            parts.append(f"time of SDPA over eager {told(ratio)}")
        if eager.peak_extra_bytes and sdpa.peak_extra_bytes:
            parts.append(_peaks(eager, sdpa))
        apart = sdpa.measures.get("difference_from_eager")
        if apart is not None:
            parts.append(f"outputs differ by up to {apart:.2g}")
        said.append(f"GPT-2, {wanted}, at {at(sdpa)}: {'; '.join(parts)}.")
    return said


def _peaks(eager: Point, sdpa: Point) -> str:
    first, second = eager.peak_extra_bytes or 0, sdpa.peak_extra_bytes or 0
    if alike(first, second):
        logits = eager.measures.get("logits_bytes")
        why = "" if logits is None else f", of which the logits are {size(logits)}"
        return f"the peak is the same, {size(first)}{why}"
    scores = eager.measures.get("score_bytes", 0.0)
    moves = "falls" if second < first else "rises"
    return f"the peak {moves} from {size(first)} to {size(second)}, where a score tensor is {size(scores)}"


def training(points: Sequence[Point]) -> list[str]:
    """Say what the backward pass adds in time and memory.

    Args:
        points: of the training experiment.

    Returns:
        Sentences.
    """
    said = []
    key = groups(timed(points), lambda p: (p.implementation, p.batch, p.kv_len, p.dtype))
    for (name, *_), found in key.items():
        both, forward = one(found, variant="forward and backward"), one(found, variant="forward")
        ratio = versus(both, forward)
        if both is None or forward is None or ratio is None:
            continue
        counted = [point.measures.get("matmul_flops") for point in (both, forward)]
        flops = (
            f", for {counted[0] / counted[1]:.3g} times the matmul FLOPs" if counted[0] and counted[1] else ""
        )
        peak = ""
        if both.peak_extra_bytes and forward.peak_extra_bytes:
            peak = f"; peak {size(both.peak_extra_bytes)} against {size(forward.peak_extra_bytes)}"
        said.append(
            f"{name} at {at(both)}: forward and backward over forward alone {told(ratio)}{flops}{peak}."
        )
    return said


def flops(points: Sequence[Point]) -> list[str]:
    """Say whether the counter of PyTorch and the formulas agree, a sentence a length.

    Args:
        points: of the FLOP-counting experiment.

    Returns:
        Sentences.
    """
    said = []
    for found in groups(points, lambda p: (p.batch, p.kv_len)).values():
        judged = [point for point in found if "counted_flops" in point.measures]
        equal = sum(point.status == "ok" for point in judged)
        if judged:
            total = sum(point.measures["counted_flops"] for point in judged)
            said.append(
                f"T = {judged[0].kv_len:,}: {equal} of {len(judged)} parts of a prompt and of a token are equal "
                f"to the last FLOP, {total:.4g} in all."
            )
    return said
