"""The null test of the clock: every cell timed as two variants of itself, by the protocol of every measurement.

Parts of the measuring child. What is found is told as trials; lab.runs.trials says what they mean. A disturbed pass
stands between two quiet ones of the same process: from one process to the next, and over minutes, the time of a
kernel differs by more than a disturbance would change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from lab.cost.calls import AttentionCall
from lab.measure.accuracy import truth
from lab.measure.cells import Cell, draw_inputs, examine, refuse_unfit
from lab.measure.competitor import Competitor
from lab.measure.events import Events
from lab.measure.experiments.scaling import Scaling
from lab.measure.gate import Gate, gate_for
from lab.measure.job import Job
from lab.measure.protocol import Protocol, time_variants
from lab.measure.samples import Samples
from lab.runs import Point

FIRST, SECOND = "first", "second"


def null_part(job: Job, events: Events) -> None:
    """Time every cell of the job against itself, as often as the job has repeats, pass after pass.

    Args:
        job: device, lengths, implementations, rounds and repeats.
        events: where trials are told.
    """
    _passes(job, events, [None] * job.spec.repeats)


def null_beside(kind: str) -> Callable[[Job, Events], None]:
    """Make the part that times every cell against itself beside a competitor, pass after pass, quiet ones around each.

    Args:
        kind: of the competitor.

    Returns:
        As `null_part`; each trial says whether it was "disturbed".
    """

    def part(job: Job, events: Events) -> None:
        _passes(job, events, [None, *[kind, None] * job.spec.repeats])

    return part


def _passes(job: Job, events: Events, competitors: Sequence[str | None]) -> None:
    """Time every cell against itself once for each competitor, None for a quiet pass."""
    scaling = Scaling()
    cells = [cell for call in scaling.calls(job) for cell in checked(job, call, events)]
    gate = gate_for(job.device.kind, job.threads)
    events.plan(0)
    for number, kind in enumerate(competitors):
        protocol = replace(scaling.protocol(job.spec), seed=job.spec.seed + number)
        beside: AbstractContextManager[object] = Competitor(kind) if kind else nullcontext()
        with beside:
            for cell in cells:
                here = f"{cell.implementation} at T = {cell.call.kv_len:,}"
                others = f" beside others, {kind}" if kind else ""
                events.progress(f"pass {number + 1} of {len(competitors)}: {here} against itself{others}")
                points = {name: each.to_dict() for name, each in trial(job, cell, protocol, gate).items()}
                events.pass_on({"event": "trial", "disturbed": kind is not None, **points})


def checked(job: Job, call: AttentionCall, events: Events) -> Iterator[Cell]:
    """Give the cells of a shape that may be timed, by the rule of the lab; tell the points of the others.

    Args:
        job: where they run.
        call: the shape.
        events: where the points of cells that may not run are told.

    Returns:
        Cells, which hold their inputs.
    """
    fitting = []
    for name in job.implementations:
        refused = refuse_unfit(job, name, call, 1, job.warm_heap)
        if refused is None:
            fitting.append(name)
        else:
            events.point(refused)
    if not fitting:
        return
    inputs = draw_inputs(job, call)
    expected = truth(*inputs[0], causal=call.causal, seed=job.spec.seed)
    for name in fitting:
        cell = examine(job, name, call, inputs, expected)
        if isinstance(cell, Cell):
            yield cell
        else:
            events.point(cell)


def trial(job: Job, cell: Cell, protocol: Protocol, gate: Gate) -> dict[str, Point]:
    """Time one cell as two variants.

    Args:
        job: where it runs.
        cell: what is called, by both variants.
        protocol: the numbers.
        gate: what tells a busy machine.

    Returns:
        The point of each variant.
    """
    samples = time_variants(job.device, dict.fromkeys((FIRST, SECOND), cell.run), protocol, gate)
    return {variant: _point(job, cell, variant, found) for variant, found in samples.items()}


def _point(job: Job, cell: Cell, variant: str, samples: Samples) -> Point:
    noise = samples.noise
    return job.point(
        cell.implementation,
        cell.call,
        "ok" if noise is None else "noisy",
        backend=cell.backend,
        warnings=(*cell.warnings, *samples.warnings()),
        variant=variant,
        reason=noise,
        timing=samples.timing(cell.first_call_s),
        **cell.found,
    )
