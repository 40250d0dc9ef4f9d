"""What a job will take, before it is started. No torch.

Memory is the closed form of lab.cost, against what may be taken, by the worker's own guard. Time is that of
`lab.measure.durations`: the protocol's steps, and calls as predicted from this device's calibration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lab.cost.calibration import Calibration
from lab.cost.calls import AttentionCall
from lab.measure import allocator, host
from lab.measure.durations import FIRST_GUESS, FROM_LAST_RUN, START_S, Cell, Durations, took_s
from lab.measure.machine import machine
from lab.measure.need import needed_bytes
from lab.measure.plan import parts_of, processes_of
from lab.runs import EXPERIMENTS, JobSpec, Run, latest, list_runs
from lab.runs.calibrations import calibrations_of, is_noisy
from lab.runs.suites import SUITES, members

CALIBRATION_S = 12.0
"""Of one number type on two cores of a server; the last calibration of the device corrects it."""
ONE_QUERY = ("decode", "split_kv", "gqa", "kv_int8")  # experiments on one new token against a cache
NARROW = ("fp16", "bf16")  # kernels accumulate in fp32: it is calibrated along

UNKNOWN_DTYPE = "fp32"
DEFAULT_IMPLEMENTATIONS = {
    "cpu": ("naive", "math", "flash"),
    "cuda": ("naive", "math", "flash", "efficient", "cudnn"),
}


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
    if spec.experiment == "calibrate":
        return _estimate_calibration(spec, device)
    another = last_run is None
    last_run = last_run or _last_of_another(spec)
    usable = _usable_bytes(device)
    warm = spec.warm_heap and device == "cpu" and "time" in parts_of(spec.experiment)
    running: list[Cell] = []
    refused = set()
    for cell in _cells(spec, device):
        need = needed_bytes(cell.call, cell.peak_bytes, warm_heap=warm)
        if usable is not None and need > usable:
            refused.add(cell.call.kv_len)
        else:
            running.append(cell)
    peak = max((cell.peak_bytes or 0 for cell in running), default=0)
    durations = Durations(last_run, _calibration(spec, device), another)
    seconds = durations.job_s(spec, running)
    return Estimate(seconds, peak, usable, durations.basis, tuple(sorted(refused)))


def _estimate_suite(spec: JobSpec, last_run: Run | None) -> Estimate:
    """Add up the experiments of a suite; they share their processes, so these start once."""
    took = took_s(last_run) if last_run is not None and _is_same_suite(last_run.spec, spec) else None
    each = [estimate(member, last_run) for member in members(spec)]
    started = sum(len(processes_of(member)) for member in members(spec)) - len(processes_of(spec))
    seconds = sum(found.seconds for found in each) - START_S * started
    refused = sorted({length for found in each for length in found.refused_lengths})
    peak = max(found.peak_bytes for found in each)
    basis = (
        each[-1].basis if took is None else FROM_LAST_RUN
    )  # the first of all is a calibration, priced by itself
    return Estimate(took or max(START_S, seconds), peak, each[0].free_bytes, basis, tuple(refused))


def _is_same_suite(done: JobSpec, spec: JobSpec) -> bool:
    """Whether a finished job measured what another would: the sizes of a suite are its own."""
    names = ("experiment", "quick", "dtype", "threads", "repeats")
    return all(getattr(done, name) == getattr(spec, name) for name in names)


def _estimate_calibration(spec: JobSpec, device: str) -> Estimate:
    """A calibration measures no cell: it takes as long as the last one of this type did."""
    dtype = _dtype(spec)
    last = next((run for run in list_runs() if dtype in _known(run) and _fits(run, spec, device)), None)
    took = took_s(last) if last is not None and last.spec.experiment == "calibrate" else None
    guess = START_S + CALIBRATION_S * (2 if dtype in NARROW else 1)
    basis = FIRST_GUESS if took is None else FROM_LAST_RUN
    return Estimate(took or guess, 0, _usable_bytes(device), basis, ())


def _calibration(spec: JobSpec, device: str) -> Calibration | None:
    """The newest quiet calibration of this device in the job's type and thread count; a noisy one misleads."""
    dtype = _dtype(spec)
    runs = (run for run in list_runs() if _fits(run, spec, device) and not is_noisy(run))
    return next((found for run in runs if (found := _known(run).get(dtype)) is not None), None)


def _known(run: Run) -> dict[str, Calibration]:
    try:
        return calibrations_of(run)
    except ValueError:  # damaged
        return {}


def _fits(run: Run, spec: JobSpec, device: str) -> bool:
    """Whether a run's calibration is of this kind of device, with as many threads on a CPU."""
    kind = run.device_key.partition(":")[0]
    threads = run.environment.get("threads")
    return kind == device and (device != "cpu" or threads == (spec.threads or host.cores()))


def _dtype(spec: JobSpec) -> str:
    """The number type of a job, as far as it can be known before its worker has looked at the device."""
    return str((machine() or {}).get("default_dtype", UNKNOWN_DTYPE)) if spec.dtype == "auto" else spec.dtype


def _device(spec: JobSpec) -> str:
    """The kind of device as lab.cost knows it: the processor, or a card."""
    name = spec.device
    if name == "auto":
        name = str((machine() or {}).get("device_kind", "cpu"))
    return "cpu" if name == "cpu" else "cuda"


def _last_of_another(spec: JobSpec) -> Run | None:
    """The last run of any experiment; of one new token at a time only for another such one.

    Such a call does so little that what it takes says nothing of a prompt's.
    """
    kind = spec.device.partition(":")[0]
    if kind == "auto":
        kind = str((machine() or {}).get("device_kind", "cpu"))
    names = [name for name in EXPERIMENTS if spec.experiment in ONE_QUERY or name not in ONE_QUERY]
    found = [run for name in names if (run := latest(name, kind)) is not None]
    return max(found, key=lambda run: run.created_utc or "", default=None)


def _usable_bytes(device: str) -> int | None:
    if device == "cpu":
        return allocator.usable_bytes(host.free_memory_bytes())
    free = (machine() or {}).get("free_bytes")
    return int(free) if isinstance(free, int | float) else None


def _cells(spec: JobSpec, device: str) -> Iterator[Cell]:
    """The cells of a job, as far as they can be known before its worker has looked at the device."""
    dtype = _dtype(spec)
    for batch in spec.batches:
        for length in spec.lengths:
            call = AttentionCall(
                batch=batch,
                heads=spec.heads,
                kv_heads=spec.kv_heads,
                q_len=1 if spec.experiment in ONE_QUERY else length,
                kv_len=length,
                head_dim=spec.head_dim,
                dtype=dtype,
                causal=spec.causal,
                threads=spec.threads or host.cores(),
                device=device,
            )
            for name in spec.implementations or DEFAULT_IMPLEMENTATIONS[device]:
                yield Cell(name, call)
