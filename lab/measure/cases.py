"""Cases: cells that a grid of implementations by lengths does not describe, measured by the same rules.

A case says itself how it is called and what its output must be: a window, a split cache, a whole model, a
backward pass. The cases of a group are timed against each other in interleaved rounds, so that their ratios
are paired. As in a grid, a case is first called, judged against float64 and watched; only then timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from lab.measure.case import Case, Checked, Plan, examine_case, failed, plan_point, short_of_memory, where
from lab.measure.cells import cache_state, clean_up, copies_for_cold_cache
from lab.measure.device import OVERSUBSCRIBED
from lab.measure.events import Events
from lab.measure.experiments.base import Experiment
from lab.measure.gate import Gate, gate_for
from lab.measure.graphs import Replay, replays
from lab.measure.job import Job
from lab.measure.memory import Need, guard
from lab.measure.protocol import VariantError, time_variants
from lab.measure.samples import Samples
from lab.measure.verification import (
    MEASURED,
    fingerprint,
    late_fault,
    other_numbers,
    refill,
    unexplained,
    withdrawn,
)
from lab.runs import Point


class CaseExperiment(Experiment):
    """An experiment over groups of cases; subclasses list the plans and make the cases of a group."""

    def plans(self, job: Job) -> Sequence[Sequence[Plan]]:
        """List the groups, each of cases that are timed against each other."""
        raise NotImplementedError

    def cases(self, job: Job, plans: Sequence[Plan]) -> Sequence[Case]:
        """Allocate and make the cases of a group, of the plans that fit into memory."""
        raise NotImplementedError

    def need(self, job: Job, plan: Plan, part: str) -> Need:
        """Compare the memory a case needs with what may be taken."""
        warm = part == "time" and job.warm_heap
        return guard(plan.implementation, plan.call, job.device, warm_heap=warm)

    def refusal(self, job: Job, plan: Plan) -> str | None:
        """Say why a case must not run, whatever the memory; None when it may."""
        return None

    def run(self, job: Job, part: str, events: Events) -> None:
        """Run one part.

        Args:
            job: what is measured, and where.
            part: "time" or "memory".
            events: where points are told.
        """
        if part not in self.parts:
            events.plan(0)
            return
        groups = self.plans(job)
        events.plan(sum(len(group) for group in groups))
        gate = gate_for(job.device.kind, job.threads)
        for group in groups:
            self._group(job, part, events, gate, group)
            clean_up(job)
        if part == "time":
            self.tell_ceilings(job, events)

    def _group(self, job: Job, part: str, events: Events, gate: Gate, group: Sequence[Plan]) -> None:
        """Measure the cases of one group; what it allocated is free when this returns."""
        plans = list(self._fitting(job, part, events, group))
        if not plans:
            return
        events.progress(f"{where(plans[0])}: inputs and float64 reference")
        try:
            cases = self.cases(job, plans)
        except (RuntimeError, MemoryError) as error:
            for plan in plans:
                events.point(short_of_memory(job, plan, error))
            return
        checked = list(examined(job, cases, events, lambda: self.cases(job, plans)))
        before = [fingerprint(each.case.held) for each in checked]
        told = counted(job, checked) if part == "memory" else self._timed(job, checked, gate, events)
        points = list(told)
        changed = [fingerprint(each.case.held) for each in checked] != before
        for point in self._verified(job, checked, points, changed, events):
            events.point(point)

    def _verified(
        self, job: Job, checked: Sequence[Checked], points: list[Point], changed: bool, events: Events
    ) -> list[Point]:
        """Call every case that has a point to be accepted once more, on other numbers in the same place."""
        by_key = {each.point(job, "ok").key: each.case for each in checked}
        measured = [point for point in points if point.status in MEASURED]
        cases = [by_key[point.key] for point in measured]
        if not cases:
            return points
        events.progress(f"{where(cases[0].plan)}: other numbers, a later call")
        try:
            fresh = self.cases(other_numbers(job), [case.plan for case in cases])
            judged = late_faults(job, cases, fresh, measured)
        except (RuntimeError, MemoryError) as error:
            judged = [short_of_memory(job, case.plan, error) for case in cases]
        if changed and judged == measured:
            judged = unexplained(measured)
        return [*(point for point in points if point.status not in MEASURED), *judged]

    def _fitting(self, job: Job, part: str, events: Events, group: Sequence[Plan]) -> Iterator[Plan]:
        for plan in group:
            need = self.need(job, plan, part)
            reason = self.refusal(job, plan)
            if reason is None and need.fits:
                yield plan
                continue
            sizes = {} if need.fits else need.sizes
            events.point(plan_point(job, plan, "refused", reason=reason or need.reason, **sizes))

    def _timed(self, job: Job, cases: list[Checked], gate: Gate, events: Events) -> Iterator[Point]:
        """Time cases against each other; without one that runs out of memory, start anew."""
        if job.device.oversubscribed():
            yield from (each.point(job, "refused", reason=OVERSUBSCRIBED) for each in cases)
            return
        protocol = self.protocol(job.spec)
        while cases:
            labels = {each.case.plan.label: each for each in cases}
            variants = {label: each.case.run for label, each in labels.items()}
            first = cases[0].case.plan
            here = where(first)
            try:
                samples = time_variants(
                    job.device,
                    variants,
                    protocol,
                    gate,
                    lambda what, here=here: events.progress(f"{here}: {what}"),  # type: ignore[misc]
                )
            except VariantError as raised:
                lost = labels[raised.variant]
                yield failed(job, lost.case.plan, raised.__cause__ or raised)
                cases = [each for each in cases if each is not lost]
                continue
            turns = copies_for_cold_cache(job, first.call) if job.cold_cache(self.cold_cache) else 1
            short = replays(job.device, variants, samples, protocol, gate, turns)
            for label, each in labels.items():
                yield timed_point(job, each, samples[label], short.get(label))
            return


def examined(
    job: Job, cases: Sequence[Case], events: Events, again: Callable[[], Sequence[Case]]
) -> Iterator[Checked]:
    """Give the cases that passed; tell the points of those that did not.

    Args:
        job: where they run.
        cases: of one group.
        events: where points are told.
        again: makes the cases anew, for their inputs.

    Returns:
        The cases that may be timed; inputs that one of them changed are as before again.
    """
    for place, case in enumerate(cases):
        before = fingerprint(case.held)
        events.progress(f"{case.plan.label} at {where(case.plan)}: first call, error, kernel")
        seen = examine_case(job, case)
        if fingerprint(case.held) != before:
            refill(case.held, again()[place].held)
        if isinstance(seen, Checked):
            yield seen
        else:
            events.point(seen)


def counted(job: Job, cases: Sequence[Checked]) -> Iterator[Point]:
    """Count what one call of each case holds beyond its inputs.

    Args:
        job: where they run.
        cases: that passed their check.

    Returns:
        Their points.
    """
    for each in cases:
        try:
            peak = job.device.peak_extra_bytes(each.case.run)
        except Exception as error:
            yield failed(job, each.case.plan, error)
            continue
        yield each.point(job, "ok", peak_extra_bytes=peak or None)


def late_faults(
    job: Job, cases: Sequence[Case], fresh: Sequence[Case], points: Sequence[Point]
) -> list[Point]:
    """Judge a late call of each case on the numbers of its fresh twin.

    Args:
        job: where they run.
        cases: that were timed or counted.
        fresh: the same cases with other numbers.
        points: those of the cases.

    Returns:
        The points; those that fail have lost their time and memory.
    """
    judged = []
    for case, twin, point in zip(cases, fresh, points, strict=True):
        refill(case.held, twin.held)
        fault = late_fault(job, case.late or case.run, twin.judge, case.held)
        judged.append(point if fault is None else withdrawn(point, *fault))
    return judged


def timed_point(job: Job, checked: Checked, samples: Samples, replay: Replay | None = None) -> Point:
    """Make the point of a case from its samples.

    Args:
        job: where it ran.
        checked: the case.
        samples: its blocks.
        replay: of its graph, where its calls are too short to be timed one by one.

    Returns:
        The point, "ok" or "noisy".
    """
    said = samples.warnings()
    if replay is not None:
        said.append(replay.words)
        checked = replace(
            checked, case=replace(checked.case, measures=checked.case.measures | replay.measures)
        )
    noise, held = samples.noise, checked.case.input_bytes
    found = {
        "timing": samples.timing(checked.first_call_s),
        "cache": cache_state(job, held) if held else None,
    }
    status = "ok" if noise is None else "noisy"
    return checked.point(job, status, *said, reason=noise, **found)
