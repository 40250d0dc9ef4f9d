"""The two parts of a measurement over a grid of cells, each run in a child process of its own.

The time part times every implementation of a shape against the others; the memory part counts what each
holds. A point is told as soon as it exists: refusals at once, times at the end of a shape, since its variants
interleave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from lab.cost.calls import AttentionCall
from lab.measure.accuracy import check, truth
from lab.measure.cells import (
    Cell,
    Inputs,
    cache_state,
    clean_up,
    copies_for_cold_cache,
    draw_inputs,
    examine,
    failed,
    fill,
    in_turn,
    out_of_memory,
    refuse_unfit,
    watched,
)
from lab.measure.device import OVERSUBSCRIBED
from lab.measure.events import Events
from lab.measure.gate import Gate, gate_for
from lab.measure.graphs import Replay, replays
from lab.measure.job import Job
from lab.measure.need import input_bytes
from lab.measure.protocol import Protocol, VariantError, time_variants
from lab.measure.samples import Samples
from lab.measure.verification import MEASURED, fingerprint, late_fault, other_numbers, unexplained, withdrawn
from lab.runs import Point


@dataclass(frozen=True)
class Grid:
    """The cells of one experiment.

    Args:
        job: device, dtype, implementations.
        calls: the shapes, smallest first.
        cold_cache: whether inputs rotate so that no cache holds them.
        events: where points are told.
    """

    job: Job
    calls: tuple[AttentionCall, ...]
    cold_cache: bool
    events: Events


def time_part(grid: Grid, protocol: Protocol) -> None:
    """Check and time every cell.

    Args:
        grid: the cells.
        protocol: the numbers of the protocol.
    """
    gate = gate_for(grid.job.device.kind, grid.job.threads)
    for call, inputs, names in _shapes(grid, timed=True):
        cells = list(_examined(grid, call, inputs, names))
        numbers = protocol.sooner() if call == grid.calls[0] else protocol
        before = fingerprint(watched(inputs))
        points = list(_timed(grid, call, cells, numbers, gate))
        changed = fingerprint(watched(inputs)) != before
        for point in _verified(grid, call, inputs, points, changed):
            grid.events.point(point)


def memory_part(grid: Grid) -> None:
    """Check every cell and count what one call of it holds beyond its inputs.

    Args:
        grid: the cells.
    """
    for call, inputs, names in _shapes(grid, timed=False):
        cells = list(_examined(grid, call, inputs, names))
        before = fingerprint(watched(inputs))
        points = list(_counted(grid.job, cells))
        changed = fingerprint(watched(inputs)) != before
        for point in _verified(grid, call, inputs, points, changed):
            grid.events.point(point)


def _counted(job: Job, cells: Iterable[Cell]) -> Iterator[Point]:
    """Count what one call of each cell holds."""
    for cell in cells:
        try:
            peak = job.device.peak_extra_bytes(cell.run)
        except Exception as error:
            yield failed(job, cell.implementation, cell.call, error)
            continue
        yield _point(job, cell, "ok", peak_extra_bytes=peak or None)


def _verified(
    grid: Grid, call: AttentionCall, inputs: list[Inputs], points: Sequence[Point], changed: bool
) -> list[Point]:
    """Call every implementation that has a point to be accepted once more, on other numbers in the same place.

    Args:
        grid: the cells.
        call: the shape.
        inputs: its sets; the first gets the numbers.
        points: of the shape, timed or counted.
        changed: whether the inputs were changed meanwhile.

    Returns:
        The points; those that fail have lost their time and memory.
    """
    places = [place for place, point in enumerate(points) if point.status in MEASURED]
    if not places:
        return list(points)
    job, first, judged = other_numbers(grid.job), inputs[:1], list(points)
    grid.events.progress(f"T = {call.kv_len:,}: other numbers, a later call")
    fill(job, first)
    try:
        expected = truth(*first[0], causal=call.causal, seed=job.spec.seed)
    except (RuntimeError, MemoryError) as error:
        during = "its second float64 reference"
        for place in places:
            judged[place] = out_of_memory(grid.job, points[place].implementation, call, error, during)
        return judged
    for place in places:
        run = in_turn(points[place].implementation, call, first)
        fault = late_fault(job, run, partial(check, expected=expected), first[0])
        if fault is not None:
            judged[place] = withdrawn(points[place], *fault)
            fill(job, first)
    return unexplained(judged) if changed and judged == list(points) else judged


def _shapes(grid: Grid, *, timed: bool) -> Iterator[tuple[AttentionCall, list[Inputs], list[str]]]:
    """Give shape after shape with its inputs and the implementations that may run; refuse the others.

    Only where calls are timed do caches and the heap matter.
    """
    grid.events.plan(len(grid.calls) * len(grid.job.implementations))
    for call in grid.calls:
        copies = copies_for_cold_cache(grid.job, call) if grid.cold_cache and timed else 1
        names = []
        for name in grid.job.implementations:
            refused = refuse_unfit(grid.job, name, call, copies, timed and grid.job.warm_heap)
            if refused is None:
                names.append(name)
            else:
                grid.events.point(refused)
        inputs: list[Inputs] = []
        try:
            inputs = draw_inputs(grid.job, call, copies) if names else []
        except (RuntimeError, MemoryError) as error:
            for name in names:
                grid.events.point(out_of_memory(grid.job, name, call, error, "its inputs"))
            names = []
        if names:
            yield call, inputs, names
        inputs.clear()
        clean_up(grid.job)


def _examined(grid: Grid, call: AttentionCall, inputs: list[Inputs], names: Iterable[str]) -> Iterator[Cell]:
    """Give the cells of a shape that passed; tell the points of those that did not."""
    grid.events.progress(f"T = {call.kv_len:,}: float64 reference")
    try:
        expected = truth(*inputs[0], causal=call.causal, seed=grid.job.spec.seed)
    except (RuntimeError, MemoryError) as error:
        for name in names:
            grid.events.point(out_of_memory(grid.job, name, call, error, "its float64 reference"))
        return
    for name in names:
        grid.events.progress(f"{name} at T = {call.kv_len:,}: first call, error, kernel")
        cell = examine(grid.job, name, call, inputs, expected)
        if isinstance(cell, Cell):
            yield cell
            continue
        grid.events.point(cell)
        if cell.status == "out_of_memory":
            clean_up(grid.job)


def _timed(
    grid: Grid, call: AttentionCall, cells: list[Cell], protocol: Protocol, gate: Gate
) -> Iterator[Point]:
    """Time the cells of a shape against each other; without one that runs out of memory, start anew."""
    if grid.job.device.oversubscribed():
        yield from (_point(grid.job, cell, "refused", reason=OVERSUBSCRIBED) for cell in cells)
        return
    while cells:
        variants = {cell.implementation: cell.run for cell in cells}
        try:
            samples = time_variants(
                grid.job.device,
                variants,
                protocol,
                gate,
                lambda what: grid.events.progress(f"T = {call.kv_len:,}: {what}"),
            )
        except VariantError as lost:
            yield failed(grid.job, lost.variant, call, lost.__cause__ or lost)
            cells = [cell for cell in cells if cell.implementation != lost.variant]
            continue
        turns = copies_for_cold_cache(grid.job, call) if grid.cold_cache else 1
        short = replays(grid.job.device, variants, samples, protocol, gate, turns)
        for cell in cells:
            name = cell.implementation
            point = _timed_point(grid.job, cell, samples[name], short.get(name))
            yield replace(point, cache=cache_state(grid.job, turns * input_bytes(call)))
        return


def _timed_point(job: Job, cell: Cell, samples: Samples, replay: Replay | None) -> Point:
    """Make the point of a cell from its samples, and from a graph's replay where calls are short."""
    timing, noise = samples.timing(cell.first_call_s), samples.noise
    said, measures = samples.warnings(), {}
    if replay is not None:
        said, measures = [*said, replay.words], replay.measures
    status = "ok" if noise is None else "noisy"
    return _point(job, cell, status, *said, reason=noise, timing=timing, measures=measures)


def _point(job: Job, cell: Cell, status: str, *said: str, **found: object) -> Point:
    return job.point(
        cell.implementation,
        cell.call,
        status,
        backend=cell.backend,
        warnings=(*cell.warnings, *said),
        **cell.found,
        **found,
    )
