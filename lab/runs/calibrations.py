"""Calibrations in recorded runs: found by device, dtype and threads, and applied to points. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lab.cost.calibration import Calibration
from lab.cost.prediction import Prediction, predict_attention
from lab.runs.point import Point
from lab.runs.run import Run

# What SDPA's default dispatch ran, by a word of the kernel's name, as lab.cost names it
KERNEL_WORDS = {"flash": "flash", "fmha": "efficient", "efficient": "efficient", "attention_math": "math"}
COST_NAMES = ("naive", "naive_inplace", "math", "flash", "efficient")


NOISY_SHARE = 0.1
"""Of a calibration's micro-benchmarks never quiet: from then on it is noisy. Of some 75 a few are noisy anywhere; a
line is drawn from a dozen of them."""


@dataclass(frozen=True)
class Noise:
    """How quiet a calibration was.

    Args:
        timed: micro-benchmarks.
        never_quiet: of those, how many were disturbed at every try.
    """

    timed: int
    never_quiet: int

    @property
    def noisy(self) -> bool:
        """Whether too many were disturbed to trust the rates."""
        return self.never_quiet > NOISY_SHARE * self.timed

    @property
    def sentence(self) -> str:
        """What to say of a noisy one."""
        return (
            f"This calibration is noisy: {self.never_quiet} of {self.timed} micro-benchmarks were never undisturbed, "
            "because the machine was busy. A quiet one of the same device, type and threads goes before it; "
            "calibrate again when nothing else computes."
        )


def noise_of(run: Run) -> Noise | None:
    """How quiet the calibration of a run was; None where the run has none, or an older lab did not count."""
    found = (run.ceilings or {}).get("micro_benchmarks")
    if not isinstance(found, dict):
        return None
    timed, never = found.get("timed"), found.get("never_quiet")
    if not isinstance(timed, int) or not isinstance(never, int) or not 0 <= never <= timed:
        return None
    return Noise(timed, never)


def is_noisy(run: Run) -> bool:
    """Whether a run's calibration is known to be noisy."""
    noise = noise_of(run)
    return noise is not None and noise.noisy


def quiet_first(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Runs in their order, those with a noisy calibration behind all others."""
    return tuple(sorted(runs, key=is_noisy))


def calibrations_of(run: Run) -> dict[str, Calibration]:
    """Read the calibrations that a run of the experiment "calibrate" recorded.

    Args:
        run: any run.

    Returns:
        Calibrations by dtype; none where the run has none.

    Raises:
        ValueError: a calibration is damaged.
    """
    recorded = (run.ceilings or {}).get("calibrations", {})
    if not isinstance(recorded, dict):
        raise ValueError(f"calibrations must be an object in run {run.run_id}, got {recorded!r}")
    return {str(dtype): Calibration.from_dict(values) for dtype, values in recorded.items()}


def newest_calibration(
    runs: Iterable[Run], device_key: str, dtype: str, threads: int | None = None
) -> Calibration | None:
    """Find the newest quiet calibration of a device in a dtype, else the newest: it holds for its thread count alone.

    Args:
        runs: newest first, as `lab.runs.list_runs` gives them.
        device_key: of the device, as `Run.device_key`.
        dtype: of the inputs.
        threads: CPU threads; None for any.

    Returns:
        The calibration, or None. Runs with a damaged one are passed over.
    """
    return next((found for _, found in calibrated_runs(runs, device_key, dtype, threads)), None)


def calibrated_runs(
    runs: Iterable[Run], device_key: str | None, dtype: str, threads: int | None = None
) -> Iterator[tuple[Run, Calibration]]:
    """Yield the runs that calibrated a device in a dtype, quiet ones first, each with its calibration.

    Args:
        runs: newest first.
        device_key: of the device; None for any.
        dtype: of the inputs.
        threads: CPU threads; None for any.
    """
    for run in quiet_first(runs):
        if device_key is not None and run.device_key != device_key:
            continue
        try:
            found = calibrations_of(run).get(dtype)
        except ValueError:
            continue
        if found is not None and (threads is None or found.threads in (None, threads)):
            yield run, found


def predict_point(point: Point, calibration: Calibration) -> Prediction | None:
    """Predict the time of a measured cell.

    Args:
        point: the cell.
        calibration: in its dtype.

    Returns:
        The prediction; None for an implementation that lab.cost does not model, or a call it refuses.
    """
    name = _cost_name(point)
    if name is None or point.dtype != calibration.dtype:
        return None
    shape = {field: value for field, value in point.shape.items() if field != "dtype"}  # the calibration's
    try:
        return predict_attention(name, calibration, **shape, cold=point.cache == "cold")
    except ValueError:
        return None


def _cost_name(point: Point) -> str | None:
    """Name the implementation as lab.cost does; PyTorch's default dispatch is what was seen to run."""
    if point.implementation in COST_NAMES:
        return point.implementation
    if point.implementation != "sdpa" or point.kernel is None:
        return None
    return next((name for word, name in KERNEL_WORDS.items() if word in point.kernel), None)
