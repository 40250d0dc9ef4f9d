"""What a job will take, before it is started: time from the last run on the device, memory from lab.cost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from lab.cost.formulas import attention_flops
from lab.cost.traffic import peak_extra_bytes
from lab.measure import host
from lab.measure.machine import machine
from lab.runs import JobSpec, Point, Run

# Seconds outside the timed rounds, measured on two cores; a finished run on the device replaces both.
START_S = 3.5  # a child process loads torch
CELL_S = 0.6  # warm-up, check and profile of one cell
SMALLEST_BLOCK_S = 0.010  # of the CPU protocol
UNKNOWN_DTYPE = "fp32"
DEFAULT_IMPLEMENTATIONS = {"cpu": ("naive", "math", "flash"), "cuda": ("naive", "math", "flash", "efficient")}
COST_NAMES = {"sdpa": "flash", "cudnn": "efficient"}
"""Whose closed form stands in for an implementation that has none: none of these holds the scores."""

Cell = tuple[str, int, int]  # implementation, batch, kv_len


@dataclass(frozen=True)
class Estimate:
    """What a job is expected to take.

    Args:
        seconds: of the whole job; None when nothing is known of the device yet.
        peak_bytes: the largest predicted peak of a call beside its inputs.
        free_bytes: memory that may be taken now; None where the system does not say.
        basis: where the time comes from, in words.
        refused_lengths: lengths at which at least one implementation would not fit.
    """

    seconds: float | None
    peak_bytes: int
    free_bytes: int | None
    basis: str
    refused_lengths: tuple[int, ...]


def estimate(spec: JobSpec, last_run: Run | None = None) -> Estimate:
    """Estimate a job.

    Args:
        spec: what would be measured.
        last_run: the last run of the experiment on this device; None when there is none.

    Returns:
        Time, memory and what would be refused.
    """
    device = _device(spec)
    free = _free_bytes(device)
    peaks = {cell: _peak(spec, device, cell) for cell in _cells(spec, device)}
    fitting = [peak for peak in peaks.values() if free is None or peak <= free]
    refused = {cell[2] for cell, peak in peaks.items() if free is not None and peak > free}
    seconds, basis = _seconds(spec, [cell for cell in peaks if cell[2] not in refused], last_run)
    return Estimate(seconds, max(fitting, default=0), free, basis, tuple(sorted(refused)))


def _device(spec: JobSpec) -> str:
    """The kind of device as lab.cost knows it: the processor, or a card."""
    name = spec.device
    if name == "auto":
        name = str((machine() or {}).get("device_kind", "cpu"))
    return "cpu" if name == "cpu" else "cuda"


def _free_bytes(device: str) -> int | None:
    if device == "cpu":
        return host.free_memory_bytes()
    free = (machine() or {}).get("free_bytes")
    return int(free) if isinstance(free, int | float) else None


def _cells(spec: JobSpec, device: str) -> Iterator[Cell]:
    names = spec.implementations or DEFAULT_IMPLEMENTATIONS[device]
    return itertools.product(names, spec.batches, spec.lengths)


def _peak(spec: JobSpec, device: str, cell: Cell) -> int:
    name, batch, length = cell
    cost_name = COST_NAMES.get(name, name)
    if cost_name == "efficient" and device == "cpu":
        cost_name = "flash"  # refused there anyway
    return peak_extra_bytes(
        cost_name,
        batch=batch,
        heads=spec.heads,
        kv_heads=spec.kv_heads,
        q_len=1 if spec.experiment == "decode" else length,
        kv_len=length,
        head_dim=spec.head_dim,
        dtype=UNKNOWN_DTYPE if spec.dtype == "auto" else spec.dtype,
        causal=spec.causal,
        threads=spec.threads or host.cores(),
        device=device,
    )


def _seconds(spec: JobSpec, cells: list[Cell], last_run: Run | None) -> tuple[float | None, str]:
    timed = [point for point in last_run.points if point.timing] if last_run else []
    if not timed or last_run is None:
        return None, "How long it takes is known after the first run on this device."
    calls = 0.0
    for cell in cells:
        alike = [point for point in timed if point.implementation == cell[0]] or timed
        calls += _rounds_seconds(spec, cell, min(alike, key=lambda point: _distance(point, cell)))
    overhead = _overhead(last_run, timed, len(cells))
    return overhead + calls, "From the last run on this device, scaled by the work."


def _distance(point: Point, cell: Cell) -> float:
    return abs(point.kv_len / cell[2] - 1) + abs(point.batch / cell[1] - 1)


def _rounds_seconds(spec: JobSpec, cell: Cell, alike: Point) -> float:
    """Seconds of the timed rounds of a cell, from a point of the same or the nearest shape."""
    _, batch, length = cell
    queries = 1 if spec.experiment == "decode" else length
    work = attention_flops(batch, spec.heads, queries, length, spec.head_dim, spec.causal)
    known = attention_flops(alike.batch, alike.heads, alike.q_len, alike.kv_len, alike.head_dim, alike.causal)
    call_s = (alike.timing.median_s if alike.timing else 0.0) * float(work / known)
    return spec.rounds * max(SMALLEST_BLOCK_S, call_s)


def _overhead(run: Run, timed: list[Point], cells: int) -> float:
    """Seconds outside the rounds: those of the last run, for as many cells as this job has."""
    if run.finished_utc is None or run.status != "finished":
        return 2 * START_S + cells * CELL_S
    total = (_instant(run.finished_utc) - _instant(run.created_utc)).total_seconds()
    inside = sum(
        sum(max(SMALLEST_BLOCK_S, s) for s in point.timing.samples_s) for point in timed if point.timing
    )
    per_cell = max(0.0, total - inside - 2 * START_S) / len(timed)
    return 2 * START_S + cells * per_cell


def _instant(utc: str) -> datetime:
    return datetime.fromisoformat(utc)
