"""Measures the constants of this machine: a calibration from micro-benchmarks of a few seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from lab.cost.calibration import Calibration
from lab.measure import allocator
from lab.measure.calibrator import Calibrator
from lab.measure.device import DTYPES, Call, Device
from lab.measure.gate import Gate
from lab.measure.microbenchmarks import Setting
from lab.measure.protocol import Protocol, time_variants
from lab.measure.quiet import Quiet

ROUNDS = Protocol(rounds=5, warm_up_s=0.03, budget_s=3.0)
"""Short rounds: some 75 micro-benchmarks take a few seconds."""

QUICK = Protocol(rounds=3, warm_up_s=0.015, budget_s=1.0)

TRIES = 3


def calibrate(
    device: Device,
    dtype: str,
    gate: Gate,
    *,
    wide: Calibration | None = None,
    quiet: Quiet | None = None,
    protocol: Protocol = ROUNDS,
    tell: Callable[[str], None] = lambda what: None,
) -> Calibration:
    """Measure the constants of a device in a dtype, with as many CPU threads as PyTorch now uses.

    Args:
        device: the CPU or a CUDA (or ROCm) card.
        dtype: of the inputs.
        gate: what tells a busy machine.
        wide: the fp32 calibration for a 16-bit dtype, where it was measured already.
        quiet: waits before timing again what was disturbed; None not to wait.
        protocol: how each micro-benchmark is timed.
        tell: called with a few words before each step.

    Returns:
        The calibration.

    Raises:
        ValueError: another kind of device, or a dtype it does not compute in.
    """
    if device.kind not in ("cpu", "cuda"):
        raise ValueError(f"device must be cpu or cuda to be calibrated, got {device.kind!r}")
    if dtype not in device.dtypes():
        raise ValueError(f"dtype must be one of {', '.join(device.dtypes())}, got {dtype!r}")
    identity = device.identity()

    def stopwatch(calls: Mapping[str, Call]) -> dict[str, float]:
        return quiet_seconds(device, calls, gate, quiet or Quiet(0), protocol)

    slots = identity["multiprocessors"] if device.kind == "cuda" else torch.get_num_threads()
    with torch.inference_mode():
        calibrator = Calibrator(
            Setting(device.torch_device, DTYPES[dtype]),
            stopwatch,
            device_name=device.name(),
            slots=slots,
            compute_capability=identity.get("compute_capability"),
            tell=tell,
        )
        return calibrator.run(wide)


def quiet_seconds(
    device: Device, calls: Mapping[str, Call], gate: Gate, quiet: Quiet, protocol: Protocol = ROUNDS
) -> dict[str, float]:
    """Time calls against each other, and those that a busy machine disturbed again.

    Args:
        device: where they run.
        calls: what to time, by name.
        gate: what tells a busy machine.
        quiet: waits before each further try.
        protocol: how each call is timed.

    Returns:
        Median seconds of a call; of a call that was never undisturbed, the least median of all tries.
    """
    medians: dict[str, float] = {}
    disturbed = dict(calls)
    for _ in range(TRIES):
        found = time_variants(device, disturbed, protocol, gate)
        allocator.trim()
        for name, samples in found.items():
            median = samples.timing().median_s
            clean = samples.noise is None
            medians[name] = median if clean else min(median, medians.get(name, median))
        disturbed = {name: disturbed[name] for name in found if found[name].noise is not None}
        if not disturbed:
            break
        quiet.wait()
    return medians
