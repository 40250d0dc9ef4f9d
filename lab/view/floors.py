"""The launch floor: what a call takes when there is next to nothing to compute."""

from __future__ import annotations

from lab.view import calibrations
from lab.view.format import seconds_text
from lab.view.scenario import Scenario


def rules(scene: Scenario, dtype_here: str) -> list[tuple[float, str]]:
    """The launch floors of the recorded device and of this machine, as rules across a chart of times.

    Args:
        scene: the scenario.
        dtype_here: the number type measured on this machine.

    Returns:
        Seconds and words; nothing for a device whose floor is not known.
    """
    found = {
        "recorded": calibrations.of_recorded(scene.recorded, scene.dtype),
        "here": calibrations.of_this_machine(scene.device, dtype_here),
    }
    rules = []
    for where, calibration in found.items():
        seconds = calibrations.ceilings_of(calibration).launch_s if calibration else None
        if seconds:
            rules.append((seconds, f"launch floor, {where}: {seconds_text(seconds)}"))
    return rules
