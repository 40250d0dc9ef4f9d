"""How a benchmark of one call misleads: the first call in a fresh process against the same call warm.

Each implementation gets a process of its own. Its very first call pays for starting threads, loading
libraries, choosing algorithms and fresh memory; the chapter's earlier edition compared two such calls and
reported a sevenfold gap that was mostly start-up. Afterwards the same process times the call warm, by the
usual protocol.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

from lab.cost.calls import AttentionCall
from lab.measure.accuracy import truth
from lab.measure.attention_cases import attention_case, draw, named
from lab.measure.case import Case, Checked, Plan, examine_case, plan_point
from lab.measure.cases import late_faults, timed_point
from lab.measure.cells import refuse_unfit
from lab.measure.child import Child
from lab.measure.events import Events
from lab.measure.experiments.base import Experiment
from lab.measure.gate import gate_for
from lab.measure.job import Job
from lab.measure.kernels import is_out_of_memory, words_of
from lab.measure.parts import Grid, memory_part
from lab.measure.protocol import time_variants
from lab.measure.verification import MEASURED, other_numbers
from lab.runs import JobSpec, Point

COLD = "cold"
"""The part that a fresh process of this experiment runs."""
PROCESSES, QUICK_PROCESSES = 3, 1


class FirstCall(Experiment):
    """Time of the first call and of a warm one, each implementation in fresh processes; peak memory."""

    name: ClassVar[str] = "first_call"

    def run(self, job: Job, part: str, events: Events) -> None:
        """Run one part.

        Args:
            job: what is measured, and where.
            part: "time" (starts fresh processes), "cold" (is one) or "memory".
            events: where points are told.
        """
        if part == COLD:
            self.run_cold(job, events)
        elif part == "memory":
            memory_part(Grid(job, self.calls(job), False, events))
        else:
            self.run_processes(job, events)
            self.tell_ceilings(job, events)

    def run_processes(self, job: Job, events: Events) -> None:
        """Start fresh processes, and tell one point for each implementation and shape.

        Args:
            job: what is measured, and where.
            events: where points are told.
        """
        calls = self.calls(job)
        events.plan(len(calls) * len(job.implementations))
        for call in calls:
            for name in job.implementations:
                refused = refuse_unfit(job, name, call, 1, job.warm_heap)  # the fresh processes have no limit
                if refused is not None:
                    events.point(refused)
                    continue
                points = []
                for number in range(QUICK_PROCESSES if job.spec.quick else PROCESSES):
                    events.progress(f"{name} at T = {call.kv_len:,}: fresh process {number + 1}")
                    points.append(fresh(job, name, call))
                events.point(together(points))

    def run_cold(self, job: Job, events: Events) -> None:
        """Time the first call of this process, then check it, then time it warm.

        Args:
            job: one implementation at one shape.
            events: where its point is told.
        """
        events.plan(1)
        (call,) = self.calls(job)
        plan = Plan(job.implementations[0], call)
        inputs = draw(job, call)
        function = named(plan.implementation, call.causal)
        try:
            cold_s = [_seconds(job, lambda: function(*inputs[0])) for _ in range(2)]
        except Exception as error:
            status = "out_of_memory" if is_out_of_memory(error) else "refused"
            events.point(plan_point(job, plan, status, reason=words_of(error)))
            return
        expected = truth(*inputs[0], causal=call.causal, seed=job.spec.seed)
        case = attention_case(plan, function, inputs, expected, measures={"second_call_s": cold_s[1]})
        point = self._warm(job, case, cold_s[0])
        if point.status in MEASURED:
            other = other_numbers(job)
            fresh = draw(other, call)
            twin = truth(*fresh[0], causal=call.causal, seed=other.spec.seed)
            (point,) = late_faults(job, [case], [attention_case(plan, function, fresh, twin)], [point])
        events.point(point)

    def _warm(self, job: Job, case: Case, first_call_s: float) -> Point:
        seen = examine_case(job, case)
        if not isinstance(seen, Checked):
            return seen
        gate = gate_for(job.device.kind, job.threads)
        samples = time_variants(job.device, {"warm": case.run}, self.protocol(job.spec), gate)
        return timed_point(job, replace(seen, first_call_s=first_call_s), samples["warm"])


def _seconds(job: Job, call: Any) -> float:
    start = time.perf_counter()
    call()
    job.device.synchronise()
    return time.perf_counter() - start


def fresh(job: Job, implementation: str, call: AttentionCall) -> Point:
    """Measure one implementation in a process of its own.

    Args:
        job: the job.
        implementation: its name.
        call: the shape.

    Returns:
        Its point, or one that says how the process ended.
    """
    found = None
    child = Child(_single(job.spec, implementation, call), COLD)
    for event in child.events():
        if event["event"] == "point":
            found = Point.from_dict(event["point"])
    ending = child.ending(child.close())
    if found is not None:
        return found
    status, reason = ending or ("crashed", "the process ended without a point")
    return plan_point(job, Plan(implementation, call), status, reason=reason)


def _single(spec: JobSpec, implementation: str, call: AttentionCall) -> JobSpec:
    """Give the job of a fresh process."""
    return replace(
        spec,
        experiment=FirstCall.name,
        implementations=(implementation,),
        lengths=(call.kv_len,),
        batches=(call.batch,),
        dtype=call.dtype,
    )


def together(points: list[Point]) -> Point:
    """Join the points of several processes: the median of their first calls, and how far those lie apart.

    Args:
        points: of one implementation at one shape.

    Returns:
        The last process's point with the median first call; the first that failed, if one did.
    """
    failed = [point for point in points if point.timing is None]
    if failed:
        return failed[0]
    firsts = sorted(_first_calls(points))
    *_, last = points
    assert last.timing is not None
    ends = {"first_call_least_s": firsts[0], "first_call_most_s": firsts[-1]}
    apart = ends | {"processes": float(len(firsts))}
    timing = replace(last.timing, first_call_s=statistics.median(firsts))
    return replace(last, timing=timing, measures=last.measures | apart)


def _first_calls(points: list[Point]) -> Iterator[float]:
    for point in points:
        if point.timing is not None and point.timing.first_call_s is not None:
            yield point.timing.first_call_s
