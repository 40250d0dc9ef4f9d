"""Rooflines: the least time that named ceilings allow. A bound, not a prediction of what a kernel reaches.

Operations run one after the other, so the bound of a call is the sum over its operations of the larger of two
times: FLOPs at the matmul ceiling, bytes at the bandwidth ceiling; and at least the launch time where one is
known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lab.cost.exact import real
from lab.cost.traffic import Operation, operations

ARITHMETIC, BANDWIDTH, LAUNCH = "arithmetic", "bandwidth", "launch"


@dataclass(frozen=True)
class Ceilings:
    """What a device can do at most, and where the figures come from.

    Args:
        name: the device, and whether the figures are its data sheet's or measured.
        source: where the figures come from.
        flops_per_s: matmul FLOPs per second in the dtype at hand.
        bytes_per_s: memory bandwidth in bytes per second, read and written bytes both counted.
        launch_s: seconds that starting one operation takes; None when not known.
    """

    name: str
    source: str
    flops_per_s: float
    bytes_per_s: float
    launch_s: float | None = None

    def __post_init__(self) -> None:
        """Check that the rates are rates."""
        for name in ("flops_per_s", "bytes_per_s"):
            _check_number(name, getattr(self, name), positive=True)
        if self.launch_s is not None:
            _check_number("launch_s", self.launch_s, positive=False)

    @property
    def ridge_flops_per_byte(self) -> float:
        """Arithmetic intensity at which both ceilings take equally long, in FLOPs per byte."""
        return self.flops_per_s / self.bytes_per_s


@dataclass(frozen=True)
class Term:
    """One operation of a bound: its counts, its least time in seconds, and the ceiling that sets it."""

    name: str
    flops: int
    bytes_moved: int
    seconds: float
    limited_by: str


@dataclass(frozen=True)
class Bound:
    """The least time of some work in seconds, the ceiling that most of it is spent under, and its terms."""

    seconds: float
    limited_by: str
    terms: tuple[Term, ...]


def bound_seconds(flops: int, bytes_moved: int, ceilings: Ceilings, *, name: str = "operation") -> Bound:
    """Bound the time of one operation from below.

    Args:
        flops: matmul FLOPs.
        bytes_moved: bytes read plus bytes written.
        ceilings: the device's ceilings.
        name: the operation's name.

    Returns:
        The bound: max(FLOPs / rate, bytes / bandwidth, launch time).

    Raises:
        ValueError: a count that is negative or not a number.

    Source: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009.
    """
    _check_number("flops", flops, positive=False)
    _check_number("bytes_moved", bytes_moved, positive=False)
    times = {ARITHMETIC: flops / ceilings.flops_per_s, BANDWIDTH: bytes_moved / ceilings.bytes_per_s}
    if ceilings.launch_s is not None:
        times[LAUNCH] = ceilings.launch_s
    limited_by = max(times, key=lambda key: times[key])
    term = Term(name, flops, bytes_moved, times[limited_by], limited_by)
    return Bound(term.seconds, limited_by, (term,))


def operations_bound(passes: Iterable[Operation], ceilings: Ceilings) -> Bound:
    """Bound operations that run one after the other.

    Args:
        passes: the operations, from `lab.cost.traffic.operations`.
        ceilings: the device's ceilings.

    Returns:
        The sum of their bounds; limited_by is the ceiling under which most of the time is spent.

    Raises:
        ValueError: no operation at all.
    """
    terms = tuple(
        bound_seconds(step.flops, step.read_bytes + step.written_bytes, ceilings, name=step.name).terms[0]
        for step in passes
    )
    if not terms:
        raise ValueError("passes must hold at least one operation, got none")
    spent = dict.fromkeys((ARITHMETIC, BANDWIDTH, LAUNCH), 0.0)
    for term in terms:
        spent[term.limited_by] += term.seconds
    return Bound(math.fsum(term.seconds for term in terms), max(spent, key=lambda key: spent[key]), terms)


def attention_bound(implementation: str, ceilings: Ceilings, **shape: Any) -> Bound:
    """Bound the time of one attention call from below.

    Args:
        implementation: "naive", "naive_inplace", "math", "flash" or "efficient".
        ceilings: the device's ceilings.
        shape: the arguments of `lab.cost.traffic.operations`.

    Returns:
        The bound with one term an operation.

    Raises:
        ValueError: a bad shape, or a call the implementation does not compute.
    """
    return operations_bound(operations(implementation, **shape), ceilings)


def _check_number(name: str, value: Any, *, positive: bool) -> None:
    allowed = "more than 0" if positive else "at least 0"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number {allowed}, got {value!r}")
    if not float(real(name, value)) < math.inf or value < 0 or (positive and value == 0):
        raise ValueError(f"{name} must be finite and {allowed}, got {value!r}")
