"""Calibrations in recorded runs: found by device, dtype and threads, and applied to points. No torch."""

from __future__ import annotations

from collections.abc import Iterable

from lab.cost.calibration import Calibration
from lab.cost.prediction import Prediction, predict_attention
from lab.runs.point import Point
from lab.runs.run import Run

# What SDPA's default dispatch ran, by a word of the kernel's name, as lab.cost names it
KERNEL_WORDS = {"flash": "flash", "fmha": "efficient", "efficient": "efficient", "attention_math": "math"}
COST_NAMES = ("naive", "naive_inplace", "math", "flash", "efficient")


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
    """Find the newest calibration of a device in a dtype: it holds for its thread count alone.

    Args:
        runs: newest first, as `lab.runs.list_runs` gives them.
        device_key: of the device, as `Run.device_key`.
        dtype: of the inputs.
        threads: CPU threads; None for any.

    Returns:
        The calibration, or None. Runs with a damaged one are passed over.
    """
    for run in runs:
        if run.device_key != device_key:
            continue
        try:
            found = calibrations_of(run).get(dtype)
        except ValueError:
            continue
        if found is not None and (threads is None or found.threads in (None, threads)):
            return found
    return None


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
    names = ("batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim", "causal")
    try:
        return predict_attention(name, calibration, **{field: getattr(point, field) for field in names})
    except ValueError:
        return None


def _cost_name(point: Point) -> str | None:
    """Name the implementation as lab.cost does; PyTorch's default dispatch is what was seen to run."""
    if point.implementation in COST_NAMES:
        return point.implementation
    if point.implementation != "sdpa" or point.kernel is None:
        return None
    return next((name for word, name in KERNEL_WORDS.items() if word in point.kernel), None)
