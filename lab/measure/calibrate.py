"""Measures the constants of this machine: a calibration from micro-benchmarks of a few seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch

from lab.cost.calibration import Calibration
from lab.measure import allocator
from lab.measure.calibrator import Calibrator
from lab.measure.cells import COLD_FACTOR, UNKNOWN_CACHE_BYTES
from lab.measure.device import DTYPES, Call, Device
from lab.measure.gate import Gate
from lab.measure.microbenchmarks import Setting
from lab.measure.protocol import Protocol, time_variants
from lab.measure.quiet import Quiet

ROUNDS = Protocol(rounds=5, warm_up_s=0.03, budget_s=3.0)
"""Short rounds: some 75 micro-benchmarks take a few seconds."""

QUICK = Protocol(rounds=3, warm_up_s=0.015, budget_s=1.0)

TRIES = 3
LIMIT_S = 45.0
"""Of a calibration that somebody waits for: from then on nothing is timed again, so that a busy machine makes it
worse, not endless. On a quiet machine of two cores it takes a third of this."""


@dataclass
class Tally:
    """What became of the micro-benchmarks of a calibration.

    Args:
        timed: how many there were.
        never_quiet: of those, how many were disturbed at every try.
    """

    timed: int = 0
    never_quiet: int = 0


def calibrate(
    device: Device,
    dtype: str,
    gate: Gate,
    *,
    wide: Calibration | None = None,
    quiet: Quiet | None = None,
    protocol: Protocol = ROUNDS,
    tell: Callable[[str], None] = lambda what: None,
    plan: Callable[[int], None] = lambda steps: None,
    step: Callable[[], None] = lambda: None,
    tally: Tally | None = None,
    limit_s: float = math.inf,
) -> Calibration:
    """Measure the constants of a device in a dtype, with as many CPU threads as PyTorch now uses.

    Args:
        device: the CPU or a CUDA (or ROCm) card.
        dtype: of the inputs.
        gate: what tells a busy machine.
        wide: the fp32 calibration for a 16-bit dtype, where it was measured already.
        quiet: waits before timing again what was disturbed; None not to wait.
        protocol: how each micro-benchmark is timed.
        tell: called with a few words before each part.
        plan: called with the number of steps, as soon as it is known.
        step: called after each step.
        tally: counts the micro-benchmarks; None not to.
        limit_s: after so long nothing disturbed is timed again.

    Returns:
        The calibration.

    Raises:
        ValueError: another kind of device, or a dtype it does not compute in.
    """
    if device.kind not in ("cpu", "cuda"):
        raise ValueError(f"device must be cpu or cuda to be calibrated, got {device.kind!r}")
    if dtype not in device.dtypes():
        raise ValueError(f"dtype must be one of {', '.join(device.dtypes())}, got {dtype!r}")
    identity, until_s = device.identity(), time.perf_counter() + limit_s
    counted, patient = tally or Tally(), quiet or Quiet(0)

    def stopwatch(calls: Mapping[str, Call]) -> dict[str, float]:
        found = quiet_seconds(device, calls, gate, patient, protocol, tally=counted, until_s=until_s)
        step()
        return found

    slots = identity["multiprocessors"] if device.kind == "cuda" else torch.get_num_threads()
    with torch.inference_mode():
        calibrator = Calibrator(
            Setting(device.torch_device, DTYPES[dtype]),
            stopwatch,
            device_name=device.name(),
            slots=slots,
            cached_bytes=COLD_FACTOR * (device.last_cache_bytes() or UNKNOWN_CACHE_BYTES),
            compute_capability=identity.get("compute_capability"),
            tell=tell,
        )
        plan(calibrator.steps(wide))
        return calibrator.run(wide)


def quiet_seconds(
    device: Device,
    calls: Mapping[str, Call],
    gate: Gate,
    quiet: Quiet,
    protocol: Protocol = ROUNDS,
    *,
    tally: Tally | None = None,
    until_s: float = math.inf,
) -> dict[str, float]:
    """Time calls against each other, and those that a busy machine disturbed again.

    Args:
        device: where they run.
        calls: what to time, by name.
        gate: what tells a busy machine.
        quiet: waits before each further try.
        protocol: how each call is timed.
        tally: counts the calls, and those that were disturbed at every try; None not to.
        until_s: reading of `time.perf_counter` from which on nothing is timed again.

    Returns:
        Median seconds of a call; of a call that was never undisturbed, the least median of all tries.
    """
    medians: dict[str, float] = {}
    disturbed = dict(calls)
    for tries in range(TRIES):
        late = time.perf_counter() >= until_s
        if late and tries:
            break
        protocol = replace(protocol, patience_s=0.0) if late else protocol
        found = time_variants(device, disturbed, protocol, gate)
        allocator.trim()
        for name, samples in found.items():
            median = samples.timing().median_s
            clean = samples.noise is None
            medians[name] = median if clean else min(median, medians.get(name, median))
        disturbed = {name: disturbed[name] for name in found if found[name].noise is not None}
        if not disturbed:
            break
        if tries < TRIES - 1 and time.perf_counter() < until_s:
            quiet.wait()
    if tally is not None:
        tally.timed += len(calls)
        tally.never_quiet += len(disturbed)
    return medians
