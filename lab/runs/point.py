"""One cell of an experiment: one implementation at one shape, with what was seen there."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

from lab.runs.checks import (
    Check,
    Record,
    error,
    figures,
    flag,
    many,
    one_of,
    optional,
    record,
    seconds,
    text,
    whole,
)
from lab.runs.repeat import Repeat
from lab.runs.spec import (
    CACHES,
    DTYPES,
    EXPERIMENTS,
    IMPLEMENTATIONS,
    MAX_BATCH,
    MAX_HEAD_DIM,
    MAX_HEADS,
    MAX_LENGTH,
    MAX_REPEATS,
    MAX_SAMPLES,
)

# From good to bad: when two parts of a point disagree, the worse one stands.
STATUSES = ("ok", "noisy", "cancelled", "refused", "out_of_memory", "crashed", "wrong")

COUNTED = ("flops",)
"""Experiments that count and compare with a formula: equal is accepted, and nothing else is."""

UNTIMED = ("memory", "backends")
"""Experiments that count memory and watch kernels, and take no time."""

SHAPE = ("batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim", "dtype", "causal")
"""What a point and a call of lab.cost have in common."""

SAME_MEDIAN = 1e-3
"""The stated median of samples lies this close to theirs; what is left is how programs round when they write."""


@dataclass(frozen=True)
class Timing(Record):
    """The time of one call. A recorded table may state the median alone: then the rest is None or empty.

    Args:
        median_s: median over the samples, in seconds.
        q1_s: first quartile, in seconds.
        q3_s: third quartile, in seconds.
        n: number of samples.
        samples_s: the raw samples (seconds per call of one block), in the order they were taken.
        first_call_s: the very first call, cold, in seconds.
        discarded_blocks: blocks thrown away because the machine was busy or throttled.
        repeats: what each process saw, where several timed the cell; the samples are then theirs in turn.

    Raises:
        ValueError: a value is no time, the quartiles are out of order, or the median is not that of the samples.
    """

    median_s: float
    q1_s: float | None = None
    q3_s: float | None = None
    n: int | None = None
    samples_s: tuple[float, ...] = ()
    first_call_s: float | None = None
    discarded_blocks: int = 0
    repeats: tuple[Repeat, ...] = ()

    CHECKS: ClassVar[Mapping[str, Check]] = {
        "median_s": seconds,
        "q1_s": optional(seconds),
        "q3_s": optional(seconds),
        "n": optional(whole(1)),
        "samples_s": many(seconds, MAX_SAMPLES),
        "first_call_s": optional(seconds),
        "discarded_blocks": whole(),
        "repeats": many(record(Repeat), MAX_REPEATS),
    }

    def __post_init__(self) -> None:
        """Check the fields, the order of the quartiles, and that the median is that of the samples."""
        super().__post_init__()
        low = self.median_s if self.q1_s is None else self.q1_s
        high = self.median_s if self.q3_s is None else self.q3_s
        if not low <= self.median_s <= high:
            raise ValueError(f"median_s is {self.median_s}; it must lie between q1_s {low} and q3_s {high}")
        middle = statistics.median(self.samples_s) if self.samples_s else self.median_s
        if abs(middle - self.median_s) > SAME_MEDIAN * middle:
            raise ValueError(
                f"median_s is {self.median_s}; it must be the median of samples_s, which is {middle}"
            )

    @property
    def within_spread(self) -> float | None:
        """Interquartile range over median of the samples of one process; of several, the middle one's."""
        found = [
            (each.q3_s - each.q1_s) / each.median_s
            for each in self.repeats or (self,)
            if each.q1_s is not None and each.q3_s is not None and each.median_s
        ]
        return statistics.median(found) if found else None

    @property
    def between_spread(self) -> float | None:
        """How far apart the medians of several processes lie, over the median; None of a single one."""
        medians = [each.median_s for each in self.repeats]
        return (max(medians) - min(medians)) / self.median_s if len(medians) > 1 and self.median_s else None


@dataclass(frozen=True, kw_only=True)
class Point(Record):
    """What one implementation did at one shape.

    Args:
        experiment: the experiment it belongs to.
        implementation: what was requested.
        variant: which way of calling it, where an experiment has several, such as "window 256".
        kernel: what was seen to run; None until known.
        status: one of STATUSES.
        reason: why the status is not "ok", in words.
        batch, heads, kv_heads, q_len, kv_len, head_dim, dtype, causal: the shape.
        timing: the time of one call.
        peak_extra_bytes: measured peak beside the inputs.
        predicted_peak_bytes: what lab.cost.traffic says of it.
        need_bytes, have_bytes: what a refused point would have needed, and what was free.
        max_abs_error: against the float64 reference.
        tolerance: the largest error that is accepted.
        measures: what an experiment saw beyond time, memory and error: numbers by name, each with its unit.
        cache: "cold" when inputs took turns so that no cache held them, else "warm"; None where that is not known.
        error_rows: which output rows were compared, such as "all" or "64 sampled rows".
        warnings: everything else worth knowing, in words.

    Raises:
        ValueError: a value is not allowed, or the shape is none that attention has.
    """

    experiment: str
    implementation: str
    variant: str | None = None
    kernel: str | None = None
    status: str
    reason: str | None = None
    batch: int
    heads: int
    kv_heads: int
    q_len: int
    kv_len: int
    head_dim: int
    dtype: str
    causal: bool
    timing: Timing | None = None
    peak_extra_bytes: int | None = None
    predicted_peak_bytes: int | None = None
    need_bytes: int | None = None
    have_bytes: int | None = None
    max_abs_error: float | None = None
    tolerance: float | None = None
    error_rows: str | None = None
    cache: str | None = None
    measures: dict[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    CHECKS: ClassVar[Mapping[str, Check]] = {
        "experiment": one_of(*EXPERIMENTS),
        "implementation": one_of(*IMPLEMENTATIONS),
        "variant": optional(text(60)),
        "kernel": optional(text(400)),
        "status": one_of(*STATUSES),
        "reason": optional(text()),
        "batch": whole(1, MAX_BATCH),
        **dict.fromkeys(("heads", "kv_heads"), whole(1, MAX_HEADS)),
        **dict.fromkeys(("q_len", "kv_len"), whole(1, MAX_LENGTH)),
        "head_dim": whole(1, MAX_HEAD_DIM),
        "dtype": one_of(*DTYPES),
        "causal": flag,
        "timing": optional(record(Timing)),
        **dict.fromkeys(("peak_extra_bytes", "predicted_peak_bytes"), optional(whole(1))),
        **dict.fromkeys(("need_bytes", "have_bytes"), optional(whole())),
        "max_abs_error": optional(error),
        "tolerance": optional(error),
        "error_rows": optional(text(200)),
        "cache": optional(one_of(*CACHES)),
        "measures": figures,
        "warnings": many(text(), 100),
    }

    def __post_init__(self) -> None:
        """Check the fields, and that heads and lengths fit each other."""
        super().__post_init__()
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads is {self.kv_heads}; it must divide heads, which is {self.heads}")
        if self.causal and self.kv_len < self.q_len:
            raise ValueError(
                f"kv_len is {self.kv_len}; with a causal mask it must be at least q_len, which is {self.q_len}"
            )

    @property
    def key(self) -> tuple[str | int | bool, ...]:
        """What identifies the cell: experiment, implementation, shape, dtype, mask and variant."""
        shape = (self.batch, self.heads, self.kv_heads, self.q_len, self.kv_len, self.head_dim)
        return (self.experiment, self.implementation, *shape, self.dtype, self.causal, self.variant or "")

    @property
    def shape(self) -> dict[str, Any]:
        """The attention that was called, by the argument names of lab.cost: sizes, dtype and mask."""
        return {name: getattr(self, name) for name in SHAPE}

    @property
    def accepted(self) -> bool:
        """Whether the point meets the rule of the lab.

        It matches the reference within its tolerance, names the kernel that ran, and reports memory as well
        as time (some experiments take no time, see UNTIMED; some only count, see COUNTED).
        """
        if self.experiment in COUNTED:
            return self.status == "ok"
        if self.status not in ("ok", "noisy") or self.kernel is None or self.peak_extra_bytes is None:
            return False
        if self.max_abs_error is None or self.tolerance is None or self.max_abs_error > self.tolerance:
            return False
        return self.experiment in UNTIMED or self.timing is not None

    def merge(self, later: Point) -> Point:
        """Return the point with what a later part found added: its values where it has any, the worse status.

        Raises:
            ValueError: the two are not the same cell.
        """
        if later.key != self.key:
            raise ValueError(f"cannot merge points of different cells: {self.key} and {later.key}")
        values = {each.name: getattr(later, each.name) for each in fields(later)}
        added = {name: value for name, value in values.items() if value is not None}
        worse = max(self, later, key=lambda point: STATUSES.index(point.status))
        reason = worse.reason or self.reason or later.reason
        seen = self.measures | later.measures
        warnings = tuple(dict.fromkeys(self.warnings + later.warnings))
        told = {"status": worse.status, "reason": reason, "warnings": warnings, "measures": seen}
        return replace(self, **added | told)
