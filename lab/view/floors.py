"""The launch floor: what a call takes when there is next to nothing to compute."""

from __future__ import annotations

from lab.cost.calibration import Calibration
from lab.view import calibrations, charts
from lab.view.palette import LIMIT, Palette
from lab.view.scenario import Scenario

LABELS = {"floor_reference": "launch floor", "floor_here": "launch floor, here"}


def floors(scene: Scenario, dtype_here: str) -> dict[str, float]:
    """The launch floors of the recorded device and of this machine, in seconds.

    Args:
        scene: the scenario.
        dtype_here: the number type measured on this machine.

    Returns:
        Seconds by key of LABELS; a device whose floor is not known is left out.
    """
    found = {
        "floor_reference": calibrations.of_recorded(scene.recorded, scene.dtype),
        "floor_here": calibrations.of_this_machine(scene.device, dtype_here),
    }
    launches = {key: _launch_s(calibration) for key, calibration in found.items() if calibration}
    return {key: seconds for key, seconds in launches.items() if seconds}


def _launch_s(calibration: Calibration) -> float | None:
    """The least time of a call that the calibration states: measured as such, or of one operation."""
    whole_calls = [*calibration.starts.values(), *(rate.launch for rate in calibration.decode.values())]
    known = [figure.value for figure in whole_calls if figure is not None]
    if known:
        return min(known)
    return calibration.overhead.value if calibration.overhead else None


def curves(scene: Scenario, dtype_here: str, grid: list[int]) -> dict[str, list[tuple[float, float]]]:
    """The floors as level lines over some contexts, by key of LABELS."""
    return {
        key: [(float(tokens), seconds) for tokens in grid]
        for key, seconds in floors(scene, dtype_here).items()
    }


def series(palette: Palette) -> list[charts.Series]:
    """The level lines, drawn as limits."""
    return [charts.role_series(key, LIMIT, label, palette, 1.5) for key, label in LABELS.items()]
