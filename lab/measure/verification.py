"""Whether a call does what it says: its output is right, and its inputs are as before.

An implementation is judged twice. Its first call shows whether it computes attention at all. Once it was timed
or counted it is called again, on other numbers written to the same places: one that was right only once, or that
remembers what it gave for a place in memory, is found out there. Inputs are compared by fingerprints, so that
one that writes to them is found out, and harms no other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from lab.measure.accuracy import Accuracy
from lab.measure.device import Call
from lab.measure.job import Job
from lab.measure.kernels import attempt, failure
from lab.runs import Point

CHANGED = "the call changed its inputs"
LATER = "a later call, on other numbers in the same place: "
UNKNOWN_CULPRIT = (
    "the inputs were changed while it was timed beside others; which of them did so is not known"
)
MEASURED = ("ok", "noisy")
"""Statuses of a point that has a time or a peak."""
WATCHED_SETS = 2
"""Sets of inputs that are compared, where several take turns: the first two calls use them."""
OTHER_SEED = 2**20
MULTIPLIER = 1_000_003
"""Odd, so that no sum loses bits when it is multiplied by it."""
COLUMNS = 64


def other_numbers(job: Job) -> Job:
    """Give the job whose inputs are drawn anew for the later call, one set of them.

    Args:
        job: that is measured.
    """
    return replace(job, spec=replace(job.spec, seed=job.spec.seed ^ OTHER_SEED, cache="warm"))


def fingerprint(tensors: Sequence[Tensor]) -> tuple[int, ...]:
    """Sum up tensors bit by bit and place by place: another number, or another order, gives another sum.

    Args:
        tensors: of any dtype.

    Returns:
        A whole number for each.
    """
    return tuple(torch.stack([_sum(tensor.detach()) for tensor in tensors]).tolist()) if tensors else ()


def _sum(tensor: Tensor) -> Tensor:
    flat = tensor.reshape(-1)
    if flat.numel() * flat.element_size() % 8 == 0:
        bits = flat.view(torch.int64)
    else:  # no whole number of 8 bytes: odd shapes, which are small
        bits = flat.view(torch.uint8).to(torch.int64)
    bits = bits.view(-1, math.gcd(bits.numel(), COLUMNS))
    return _weighted(bits.sum(dim=1)) * MULTIPLIER + _weighted(bits.sum(dim=0))


def _weighted(sums: Tensor) -> Tensor:
    return (sums * torch.arange(1, len(sums) + 1, device=sums.device)).sum()


def refill(tensors: Sequence[Tensor], fresh: Sequence[Tensor]) -> None:
    """Write numbers into tensors that stay where they are.

    Args:
        tensors: one set of inputs, or several sets of the same numbers.
        fresh: one set.
    """
    with torch.no_grad():
        for place, tensor in enumerate(tensors):
            tensor.copy_(fresh[place % len(fresh)])


def late_fault(
    job: Job, run: Call, judge: Callable[[Any], Accuracy], held: Sequence[Tensor]
) -> tuple[str, dict[str, Any]] | None:
    """Call once more, after the inputs got other numbers, and judge the output.

    Args:
        job: where it runs.
        run: the call.
        judge: compares an output with the truth of those numbers.
        held: its inputs, which must stay as they are.

    Returns:
        The status that the point gets, with the fields that say why; None when all is well.
    """
    before = fingerprint(held)
    try:
        output, refusal = attempt(run)
        job.device.synchronise()
    except Exception as error:
        status, reason = failure(error)
        return status, {"reason": LATER + reason}
    if refusal is not None:
        return "wrong", {"reason": LATER + refusal}
    accuracy = judge(output)
    fault = accuracy.fault or (CHANGED if fingerprint(held) != before else None)
    if fault is None:
        return None
    found = {"max_abs_error": accuracy.max_abs_error, "tolerance": accuracy.tolerance}
    return "wrong", {"reason": LATER + fault, **found}


def withdrawn(point: Point, status: str, found: dict[str, Any]) -> Point:
    """Take back what a point says of time and memory.

    Args:
        point: of an implementation that failed later.
        status: that it gets.
        found: further fields of it, such as the reason.
    """
    return replace(point, status=status, timing=None, peak_extra_bytes=None, measures={}, **found)


def unexplained(points: Sequence[Point]) -> list[Point]:
    """Refuse all points of a group whose inputs somebody changed, when nobody is known to have.

    Args:
        points: of the group.
    """
    return [
        withdrawn(point, "refused", {"reason": UNKNOWN_CULPRIT}) if point.status in MEASURED else point
        for point in points
    ]
