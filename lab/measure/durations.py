"""How long a job will take: the steps of the protocol, with the time that each call is expected to take. No torch.

A call's time comes from this device's calibration where there is one in its type and thread count, else from
the most alike point of the last run, scaled by the work, else from a first guess.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from lab.cost.calibration import Calibration
from lab.cost.calls import AttentionCall
from lab.cost.formulas import attention_flops
from lab.cost.prediction import predict_attention
from lab.cost.traffic import peak_extra_bytes
from lab.measure.plan import parts_of, processes_of
from lab.runs import JobSpec, Point, Run

# Of the protocol, in seconds; the last run on the device corrects their sum.
START_S = 3.0  # a child process loads torch
CELL_S = 0.15  # a cell is checked, profiled, told
WARM_UP_S = 0.15
BLOCK_S = {"cpu": 0.010, "cuda": 0.001}
CALLS_BEFORE_ROUNDS = 7  # first call, check, kernel; then four blocks of warm-up at least
CALLS_FOR_MEMORY = 4
MOST_CORRECTED = 4.0
BUDGET_S = 30.0  # of one shape: no round starts later, once FEWEST_ROUNDS are done
FEWEST_ROUNDS = 3

FIRST_GUESS_FLOPS_PER_S = {"cpu": 40e9, "cuda": 1e12}
"""Until something was measured here: of one CPU thread (naive fp32 on an AVX-512 server), of a small card."""

SLOWEST_SHARE = 0.1
"""Of the first guess: scaled up from a short call, whose time is mostly its start, no call is taken to be slower."""

POINTS_PER_SHAPE = {
    "causal": 6, "mask": 12, "windowed": 3, "gqa": 8, "split_kv": 10, "accuracy": 45, "kv_int8": 10,
    "training": 6, "model": 6, "backends": 78,
}  # fmt: skip
"""Points of one batch and length where an experiment compares more than implementations: what a default run of
each told on a CPU; the last run of the experiment corrects it elsewhere."""

COST_NAMES = {"sdpa": "flash", "cudnn": "efficient"}
"""Whose closed form stands in for an implementation that has none: none of these holds the scores."""

FROM_CALIBRATION = "From this device's calibration."
FROM_LAST_RUN = "From the last run on this device, scaled by the work."
FROM_ANOTHER = "From the last run of another kind on this device, scaled by the work."
FIRST_GUESS = "A first guess from another machine's figures; the first run here replaces it."


@dataclass(frozen=True)
class Cell:
    """An implementation and a shape.

    Args:
        implementation: as in a job.
        call: the shape.
    """

    implementation: str
    call: AttentionCall

    @property
    def flops(self) -> float:
        """Matmul FLOPs of the call."""
        call = self.call
        return float(
            attention_flops(call.batch, call.heads, call.q_len, call.kv_len, call.head_dim, call.causal)
        )

    @property
    def cost_name(self) -> str:
        """The implementation as lab.cost names it."""
        return COST_NAMES.get(self.implementation, self.implementation)

    @property
    def peak_bytes(self) -> int | None:
        """The predicted peak beside the inputs; None where nothing is predicted."""
        if self.cost_name == "efficient" and self.call.device == "cpu":
            return None  # refused there anyway
        try:
            return peak_extra_bytes(self.cost_name, **self.call.shape)
        except ValueError:  # a call this implementation does not compute
            return None


@dataclass(frozen=True)
class Durations:
    """What is known of a device.

    Args:
        known: the last run there; None when there is none.
        calibration: of the device, in the job's type and thread count; None when there is none.
        another: whether that run was of another experiment.
    """

    known: Run | None = None
    calibration: Calibration | None = None
    another: bool = False

    @cached_property
    def _timed(self) -> dict[str, list[Point]]:
        """The timed points of the last run, by implementation."""
        found: dict[str, list[Point]] = defaultdict(list)
        for point in self.known.points if self.known else ():
            if point.timing:
                found[point.implementation].append(point)
        return found

    @property
    def basis(self) -> str:
        """Where the times come from, in words."""
        if self.calibration is not None:
            return FROM_CALIBRATION
        if self.known is None:
            return FIRST_GUESS
        return FROM_ANOTHER if self.another else FROM_LAST_RUN

    def job_s(self, spec: JobSpec, cells: Iterable[Cell]) -> float:
        """Seconds of a job, corrected by how long the last run took.

        Args:
            spec: the job.
            cells: those that will run.
        """
        return self.steps_s(spec, list(cells)) * self._correction()

    def steps_s(self, spec: JobSpec, cells: list[Cell]) -> float:
        """Seconds of a job by the steps of the protocol, before any correction.

        Args:
            spec: the job.
            cells: those that run.
        """
        processes = processes_of(spec)
        parts = set(processes)
        cells_s = 0.0
        calls_s = [self.call_s(cell) for cell in cells]
        blocks_s = [
            max(BLOCK_S[cell.call.device], call_s) for cell, call_s in zip(cells, calls_s, strict=True)
        ]
        rounds = _rounds(spec.rounds, cells, blocks_s)
        for cell, call_s, block_s in zip(cells, calls_s, blocks_s, strict=True):
            if "time" in parts:
                rounds_s = rounds[_shape(cell)] * block_s
                timed_s = CELL_S + max(WARM_UP_S, CALLS_BEFORE_ROUNDS * call_s) + rounds_s
                cells_s += timed_s * processes.count("time")
            if "memory" in parts:
                cells_s += CELL_S + CALLS_FOR_MEMORY * call_s
        return START_S * len(processes) + cells_s * _points_a_cell(spec, cells)

    def call_s(self, cell: Cell) -> float:
        """Seconds of one call.

        Args:
            cell: what is called.
        """
        if self.calibration is not None and self.calibration.dtype == cell.call.dtype:
            predicted = _predicted_s(self.calibration, cell.cost_name, cell.call)
            if predicted is not None:
                return predicted
        alike = self._timed.get(cell.implementation) or [
            point for same in self._timed.values() for point in same
        ]
        workers = cell.call.threads if cell.call.device == "cpu" else 1
        guess_s = cell.flops / (FIRST_GUESS_FLOPS_PER_S[cell.call.device] * workers)
        if not alike:
            return guess_s
        nearest = min(alike, key=lambda point: _distance(point, cell.call))
        known_s = nearest.timing.median_s if nearest.timing else 0.0
        scaled_s = known_s * cell.flops / _cell_of(nearest).flops
        return min(scaled_s, max(known_s, guess_s / SLOWEST_SHARE))

    def _correction(self) -> float:
        """How much longer the last run took than the model says of it; 1 when it tells nothing, or was disturbed."""
        run = self.known
        took = took_s(run) if run else None
        if (
            run is None
            or took is None
            or 2 * sum(point.status == "noisy" for point in run.points) > len(run.points)
        ):
            return 1.0
        kind = "cpu" if run.environment.get("device_kind") == "cpu" else "cuda"
        done = [_cell_of(point, kind) for point in run.points if point.status in ("ok", "noisy", "wrong")]
        threads = run.environment.get("threads")
        if isinstance(threads, int):
            done = [replace(cell, call=replace(cell.call, threads=threads)) for cell in done]
        # its points are all there: none stands for several
        timed = "time" in parts_of(run.spec.experiment)
        ratio = took / self.steps_s(replace(run.spec, experiment="scaling" if timed else "memory"), done)
        return min(MOST_CORRECTED, max(1 / MOST_CORRECTED, ratio))


def _points_a_cell(spec: JobSpec, cells: list[Cell]) -> float:
    """How many points each cell stands for."""
    shapes = len(spec.batches) * len(spec.lengths)
    points = POINTS_PER_SHAPE.get(spec.experiment)
    return points * shapes / len(cells) if points and cells else 1.0


def _rounds(asked: int, cells: list[Cell], blocks_s: list[float]) -> dict[tuple[int, int], int]:
    """The rounds that each shape gets: the protocol starts none once a shape's budget is spent."""
    round_s: dict[tuple[int, int], float] = defaultdict(float)
    for cell, block_s in zip(cells, blocks_s, strict=True):
        round_s[_shape(cell)] += block_s
    return {shape: _rounds_within(asked, seconds) for shape, seconds in round_s.items()}


def _shape(cell: Cell) -> tuple[int, int]:
    return cell.call.batch, cell.call.kv_len


def _rounds_within(asked: int, round_s: float) -> int:
    """Rounds of a shape whose variants take so long each time; up to FEWEST_ROUNDS may take twice the budget."""
    done = 1
    while done < asked and done * round_s <= BUDGET_S * (1 if done >= FEWEST_ROUNDS else 2):
        done += 1
    return done


def _predicted_s(calibration: Calibration, implementation: str, call: AttentionCall) -> float | None:
    names = ("batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim", "causal")
    try:
        return predict_attention(
            implementation, calibration, **{name: getattr(call, name) for name in names}
        ).seconds
    except ValueError:  # not modelled, or not with these constants
        return None


def _distance(point: Point, call: AttentionCall) -> float:
    return abs(point.kv_len / call.kv_len - 1) + abs(point.batch / call.batch - 1)


def _cell_of(point: Point, device: str = "cpu") -> Cell:
    shape = ("batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim", "dtype", "causal")
    call = AttentionCall(**{name: getattr(point, name) for name in shape}, device=device)
    return Cell(point.implementation, call)


def took_s(run: Run) -> float | None:
    """Seconds that a run took; None of one that did not finish.

    Args:
        run: kept on this machine.
    """
    if run.status != "finished" or run.finished_utc is None or run.created_utc is None:
        return None
    start, end = (datetime.fromisoformat(utc) for utc in (run.created_utc, run.finished_utc))
    return max(1.0, (end - start).total_seconds())
