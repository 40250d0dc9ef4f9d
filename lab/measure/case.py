"""A case: a call that says itself how it is made and what its output must be, and the points it makes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from lab.cost.calls import AttentionCall
from lab.measure.accuracy import Accuracy
from lab.measure.device import Call
from lab.measure.job import Job
from lab.measure.kernels import attempt, beyond_limit, failure, is_out_of_memory, mismatch, observe
from lab.measure.verification import CHANGED, fingerprint
from lab.runs import Point


@dataclass(frozen=True)
class Plan:
    """A case before anything of it is allocated.

    Args:
        implementation: a name of lab.runs.IMPLEMENTATIONS.
        call: the shape.
        variant: which way of calling it, or None.
    """

    implementation: str
    call: AttentionCall
    variant: str | None = None

    @property
    def label(self) -> str:
        """What tells it from the other cases of its group, in words."""
        mask = "causal" if self.call.causal else "full"
        heads = f"{self.call.kv_heads} KV heads" if self.call.grouped else None
        return ", ".join(part for part in (self.implementation, self.variant, heads, mask) if part)


@dataclass(frozen=True)
class Case:
    """A case that can be run.

    Args:
        plan: what it is.
        run: runs it once and returns its output.
        judge: compares an output with the truth.
        held: the tensors that a call reads, which must stay as they are; of sets that take turns the first two.
        measures: numbers known of it, by name.
        warnings: in words.
        predicted_peak_bytes: what lab.cost says of its peak, or None.
        input_bytes: all sets of inputs that take turns, or None where inputs are no tensors of attention.
        inspect: takes further numbers from an output, by name.
        late: runs it once on the first set of inputs; None where there is one set.
    """

    plan: Plan
    run: Call
    judge: Callable[[Any], Accuracy]
    held: Sequence[Tensor]
    measures: dict[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    predicted_peak_bytes: int | None = None
    input_bytes: int | None = None
    inspect: Callable[[Any], dict[str, float]] | None = None
    late: Call | None = None


@dataclass(frozen=True)
class Checked:
    """A case that passed its check, and the fields of its point that are known."""

    case: Case
    first_call_s: float
    found: dict[str, Any]

    def point(self, job: Job, status: str, *said: str, **found: Any) -> Point:
        """Make its point, with what was found since."""
        return case_point(job, self.case, status, *said, **self.found, **found)


def case_point(job: Job, case: Case, status: str, *said: str, **found: Any) -> Point:
    """Make the point of a case.

    Args:
        job: where it belongs.
        case: the case.
        status: one of lab.runs.STATUSES.
        said: further warnings.
        found: further fields of the point.

    Returns:
        The point.
    """
    known = {"measures": case.measures, "predicted_peak_bytes": case.predicted_peak_bytes}
    return plan_point(job, case.plan, status, warnings=(*case.warnings, *said), **known, **found)


def plan_point(job: Job, plan: Plan, status: str, **found: Any) -> Point:
    """Make the point of a case that did not come to be.

    Args:
        job: where it belongs.
        plan: the case.
        status: one of lab.runs.STATUSES.
        found: further fields of the point.

    Returns:
        The point; a prediction is the case's own to make.
    """
    found.setdefault("predicted_peak_bytes", None)
    return job.point(plan.implementation, plan.call, status, variant=plan.variant, **found)


def where(plan: Plan) -> str:
    """Name the shape of a case in words, such as "T = 1,024"."""
    call = plan.call
    batch = f"batch {call.batch}, " if call.batch > 1 else ""
    return f"{batch}T = {call.kv_len:,}"


def examine_case(job: Job, case: Case) -> Checked | Point:
    """Call a case once, judge its output, and watch which kernel runs.

    Args:
        job: where it runs.
        case: the case.

    Returns:
        The case as checked, or the point of one that may not be timed: refused, wrong, crashed or out of memory.
    """
    before = fingerprint(case.held)
    try:
        start = time.perf_counter()
        output, refusal = attempt(case.run)
        job.device.synchronise()
        first_call_s = time.perf_counter() - start
        if refusal is not None:
            return case_point(job, case, "refused", reason=refusal)
        accuracy = case.judge(output)
        if case.inspect is not None and accuracy.max_abs_error is not None:
            case = replace(case, measures=case.measures | case.inspect(output))
        del output
    except (RuntimeError, MemoryError) as error:
        return short_of_memory(job, case.plan, error)
    try:
        kernel, backend = observe(case.run, job.device.kind)
    except Exception as error:
        return failed(job, case.plan, error)
    found: dict[str, Any] = {
        "kernel": kernel,
        "max_abs_error": accuracy.max_abs_error,
        "tolerance": accuracy.tolerance,
        "error_rows": accuracy.rows,
    }
    silent = beyond_limit(backend, case.plan.call, job.device.kind)
    if silent is not None:
        return case_point(job, case, "refused", reason=silent)
    said = mismatch(case.plan.implementation, backend)
    if said:
        case = replace(case, warnings=(*case.warnings, said))
    checked = Checked(case, first_call_s, found)
    fault = accuracy.fault or (CHANGED if fingerprint(case.held) != before else None)
    return checked if fault is None else checked.point(job, "wrong", reason=fault)


def failed(job: Job, plan: Plan, error: BaseException) -> Point:
    """Record that a case raised in a later call than its first, which says nothing of the others.

    Args:
        job: where it happened.
        plan: what was running.
        error: what was raised.

    Returns:
        The point.
    """
    status, reason = failure(error)
    error.__traceback__ = None  # it holds the tensors of the failed call
    return plan_point(job, plan, status, reason=reason)


def short_of_memory(job: Job, plan: Plan, error: BaseException) -> Point:
    """Record that memory ran out.

    Args:
        job: where it happened.
        plan: what was running.
        error: what was raised.

    Returns:
        The point.

    Raises:
        BaseException: the error itself, when it is not about memory.
    """
    if not is_out_of_memory(error):
        raise error
    said = str(error).strip().splitlines()
    error.__traceback__ = None  # it holds the tensors of the failed call
    return plan_point(job, plan, "out_of_memory", reason=said[0] if said else "Python ran out of memory")
