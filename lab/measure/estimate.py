"""What a job will take, before it is started. No torch.

Memory is the closed form of lab.cost, against what may be taken, by the worker's own guard. Time is a small
model of the protocol (start of the children, warm-up, rounds, the memory part) with the call times of the
last run on the device, scaled by the work; what the model gets wrong of that run corrects it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from lab.cost.calls import AttentionCall
from lab.cost.formulas import attention_flops
from lab.cost.traffic import peak_extra_bytes
from lab.measure import allocator, host
from lab.measure.machine import machine
from lab.measure.need import needed_bytes
from lab.measure.plan import parts_of
from lab.runs import EXPERIMENTS, JobSpec, Point, Run, latest
from lab.runs.suites import SUITES, members

# Of the protocol, in seconds; the last run on the device corrects their sum.
START_S = 3.0  # a child process loads torch
CELL_S = 0.15  # a cell is checked, profiled, told
WARM_UP_S = 0.15
BLOCK_S = {"cpu": 0.010, "cuda": 0.001}
CALLS_BEFORE_ROUNDS = 7  # first call, check, kernel; then four blocks of warm-up at least
CALLS_FOR_MEMORY = 4
MOST_CORRECTED = 4.0

FIRST_GUESS_FLOPS_PER_S = {"cpu": 40e9, "cuda": 1e12}
"""Until something was measured here: of one CPU thread (naive fp32 on an AVX-512 server), of a small card."""

UNKNOWN_DTYPE = "fp32"
DEFAULT_IMPLEMENTATIONS = {
    "cpu": ("naive", "math", "flash"),
    "cuda": ("naive", "math", "flash", "efficient", "cudnn"),
}
COST_NAMES = {"sdpa": "flash", "cudnn": "efficient"}
"""Whose closed form stands in for an implementation that has none: none of these holds the scores."""

FROM_LAST_RUN = "From the last run on this device, scaled by the work."
FIRST_GUESS = "A first guess from another machine's figures; the first run here replaces it."


@dataclass(frozen=True)
class Estimate:
    """What a job is expected to take.

    Args:
        seconds: of the whole job.
        peak_bytes: the largest predicted peak of a call beside its inputs, of those that will run.
        free_bytes: memory that may be taken now; None where the system does not say.
        basis: where the time comes from, in words.
        refused_lengths: lengths at which at least one implementation will be refused for lack of memory.
    """

    seconds: float
    peak_bytes: int
    free_bytes: int | None
    basis: str
    refused_lengths: tuple[int, ...]


@dataclass(frozen=True)
class _Cell:
    implementation: str
    call: AttentionCall

    @property
    def flops(self) -> float:
        call = self.call
        return float(
            attention_flops(call.batch, call.heads, call.q_len, call.kv_len, call.head_dim, call.causal)
        )

    @property
    def peak_bytes(self) -> int | None:
        name = COST_NAMES.get(self.implementation, self.implementation)
        if name == "efficient" and self.call.device == "cpu":
            return None  # refused there anyway
        try:
            return peak_extra_bytes(name, **_shape(self.call))
        except ValueError:  # a call this implementation does not compute
            return None


def _shape(call: AttentionCall) -> dict[str, Any]:
    return {field.name: getattr(call, field.name) for field in fields(call)}


def estimate(spec: JobSpec, last_run: Run | None = None) -> Estimate:
    """Estimate a job.

    Args:
        spec: what would be measured.
        last_run: the last run of the experiment on this device; None when there is none, then the last of
            another experiment counts.

    Returns:
        Time, memory and what would be refused.
    """
    if spec.experiment in SUITES:
        return _estimate_suite(spec, last_run)
    device = _device(spec)
    last_run = last_run or _last_of_another(spec)
    usable = _usable_bytes(device)
    warm = spec.warm_heap and device == "cpu" and "time" in parts_of(spec.experiment)
    running, refused = [], set()
    for cell in _cells(spec, device):
        need = needed_bytes(cell.call, cell.peak_bytes, warm_heap=warm)
        if usable is not None and need > usable:
            refused.add(cell.call.kv_len)
        else:
            running.append(cell)
    peak = max((cell.peak_bytes or 0 for cell in running), default=0)
    seconds = _model_seconds(spec, running, last_run) * _correction(last_run)
    basis = FIRST_GUESS if last_run is None else FROM_LAST_RUN
    return Estimate(seconds, peak, usable, basis, tuple(sorted(refused)))


def _estimate_suite(spec: JobSpec, last_run: Run | None) -> Estimate:
    """Add up the experiments of a suite; they share their processes, so these start once."""
    each = [estimate(member, last_run) for member in members(spec)]
    started = sum(len(parts_of(name)) for name in SUITES[spec.experiment]) - len(parts_of(spec.experiment))
    seconds = sum(found.seconds for found in each) - START_S * started
    refused = sorted({length for found in each for length in found.refused_lengths})
    peak = max(found.peak_bytes for found in each)
    return Estimate(max(START_S, seconds), peak, each[0].free_bytes, each[0].basis, tuple(refused))


def _device(spec: JobSpec) -> str:
    """The kind of device as lab.cost knows it: the processor, or a card."""
    name = spec.device
    if name == "auto":
        name = str((machine() or {}).get("device_kind", "cpu"))
    return "cpu" if name == "cpu" else "cuda"


def _last_of_another(spec: JobSpec) -> Run | None:
    kind = spec.device.partition(":")[0]
    if kind == "auto":
        kind = str((machine() or {}).get("device_kind", "cpu"))
    found = [run for name in EXPERIMENTS if (run := latest(name, kind)) is not None]
    return max(found, key=lambda run: run.created_utc or "", default=None)


def _usable_bytes(device: str) -> int | None:
    if device == "cpu":
        return allocator.usable_bytes(host.free_memory_bytes())
    free = (machine() or {}).get("free_bytes")
    return int(free) if isinstance(free, int | float) else None


def _cells(spec: JobSpec, device: str) -> Iterator[_Cell]:
    """The cells of a job, as far as they can be known before its worker has looked at the device."""
    dtype = spec.dtype
    if dtype == "auto":
        dtype = str((machine() or {}).get("default_dtype", UNKNOWN_DTYPE))
    for batch in spec.batches:
        for length in spec.lengths:
            call = AttentionCall(
                batch=batch,
                heads=spec.heads,
                kv_heads=spec.kv_heads,
                q_len=1 if spec.experiment == "decode" else length,
                kv_len=length,
                head_dim=spec.head_dim,
                dtype=dtype,
                causal=spec.causal,
                threads=spec.threads or host.cores(),
                device=device,
            )
            for name in spec.implementations or DEFAULT_IMPLEMENTATIONS[device]:
                yield _Cell(name, call)


def _model_seconds(spec: JobSpec, cells: Iterable[_Cell], known: Run | None) -> float:
    """Seconds of a job by the steps of the protocol, before any correction."""
    parts = parts_of(spec.experiment)
    seconds = START_S * len(parts)
    for cell in cells:
        call_s = _call_seconds(cell, known)
        if "time" in parts:
            block_s = max(BLOCK_S[cell.call.device], call_s)
            seconds += CELL_S + max(WARM_UP_S, CALLS_BEFORE_ROUNDS * call_s) + spec.rounds * block_s
        if "memory" in parts:
            seconds += CELL_S + CALLS_FOR_MEMORY * call_s
    return seconds


def _call_seconds(cell: _Cell, known: Run | None) -> float:
    """Seconds of one call: of the most alike point that was timed, scaled by the work; else a first guess."""
    timed = [point for point in known.points if point.timing] if known else []
    alike = [point for point in timed if point.implementation == cell.implementation] or timed
    if not alike:
        call = cell.call
        workers = call.threads if call.device == "cpu" else 1
        return cell.flops / (FIRST_GUESS_FLOPS_PER_S[call.device] * workers)
    nearest = min(alike, key=lambda point: _distance(point, cell.call))
    return (nearest.timing.median_s if nearest.timing else 0.0) * cell.flops / _point_cell(nearest).flops


def _distance(point: Point, call: AttentionCall) -> float:
    return abs(point.kv_len / call.kv_len - 1) + abs(point.batch / call.batch - 1)


def _point_cell(point: Point, device: str = "cpu") -> _Cell:
    shape = ("batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim", "dtype", "causal")
    call = AttentionCall(**{name: getattr(point, name) for name in shape}, device=device)
    return _Cell(point.implementation, call)


def _correction(run: Run | None) -> float:
    """How much longer the last run took than the model says of it; 1 when it tells nothing."""
    if run is None or run.status != "finished" or run.finished_utc is None or run.created_utc is None:
        return 1.0
    kind = "cpu" if run.environment.get("device_kind") == "cpu" else "cuda"
    done = [_point_cell(point, kind) for point in run.points if point.status in ("ok", "noisy", "wrong")]
    threads = run.environment.get("threads")
    if isinstance(threads, int):
        done = [replace(cell, call=replace(cell.call, threads=threads)) for cell in done]
    took = (_instant(run.finished_utc) - _instant(run.created_utc)).total_seconds()
    ratio = max(1.0, took) / _model_seconds(run.spec, done, run)
    return min(MOST_CORRECTED, max(1 / MOST_CORRECTED, ratio))


def _instant(utc: str) -> datetime:
    return datetime.fromisoformat(utc)
