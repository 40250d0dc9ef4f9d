"""Times of an attention call on this machine: predicted where it was calibrated, else no more than a bound."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from lab.cost.calibration import Calibration
from lab.cost.predict import Bound, Ceilings, attention_bound
from lab.cost.prediction import FUSED as FUSED_KERNELS
from lab.cost.prediction import Prediction, predict_attention
from lab.runs import Run
from lab.view import calibrations, ceilings, here
from lab.view.scenario import Scenario
from lab.view.stamp import Stamp, stamp

BOUND, PREDICTION = "bound", "prediction"


@dataclass(frozen=True)
class Forecast:
    """What lines of this machine are drawn from.

    Args:
        device: the scenario's choice.
        dtype: measured on this machine.
        limits: the ceilings of the run shown; None until they were measured.
        threads: CPU threads that compute; a calibration holds for its own number alone.
    """

    device: str
    dtype: str
    limits: Ceilings | None
    threads: int

    @cached_property
    def calibration(self) -> Calibration | None:
        """The newest calibration of the device in this type and with as many threads."""
        return calibrations.of_this_machine(self.device, self.dtype, self.threads)

    @property
    def kind(self) -> str:
        """PREDICTION or BOUND."""
        return BOUND if self.calibration is None else PREDICTION

    @property
    def badges(self) -> list[str]:
        """What the lines of a chart are, where this machine has any."""
        if self.calibration is not None:
            noisy = calibrations.noise(calibrations.calibrated_run(self.device, self.dtype, self.threads))
            from_it = "a noisy calibration: the machine was busy" if noisy else "this machine's calibration"
            return [f"Lines here: predicted from {from_it}"]
        return [] if self.limits is None else ["Lines: bounds; Roofline calibrates this machine"]

    def seconds(self, *, fused: bool, **shape: Any) -> float | None:
        """The time of one call; None where neither a calibration nor ceilings are known.

        Args:
            fused: a fused kernel, else naive attention.
            shape: batch, heads, kv_heads, q_len, kv_len, head_dim and causal.
        """
        found = self.estimate(fused=fused, **shape)
        return None if found is None else found.seconds

    def estimate(self, *, fused: bool, **shape: Any) -> Prediction | Bound | None:
        """The time of one call with the terms that add up to it; None where nothing is known of the device.

        Args:
            fused: a fused kernel, else naive attention.
            shape: batch, heads, kv_heads, q_len, kv_len, head_dim and causal.
        """
        if self.calibration is not None:
            name = _kernel(self.calibration) if fused else "naive"
            return predict_attention(name, self.calibration, **shape)
        if self.limits is None:
            return None
        name, kind = "flash" if fused else "naive", here.cost_device(self.device)
        return attention_bound(name, self.limits, dtype=self.dtype, device=kind, **shape)


def of_scene(scene: Scenario, run: Run | None, dtype: str) -> Forecast:
    """The forecast of this machine for a scenario.

    Args:
        scene: the scenario.
        run: measured here; None for none.
        dtype: measured on this machine.
    """
    return _forecast(scene.device, dtype, ceilings.of_run(run, dtype), here.threads(run), stamp())


@lru_cache(maxsize=16)
def _forecast(device: str, dtype: str, limits: Ceilings | None, threads: int, written: Stamp) -> Forecast:
    """One forecast until a run file is written: a chart asks for it at every place of a line."""
    return Forecast(device, dtype, limits, threads)


def _kernel(calibration: Calibration) -> str:
    """The fused kernel whose share of the matmul rate is known, else the usual one."""
    known = (name for name in FUSED_KERNELS if any(key.startswith(f"{name}/") for key in calibration.fused))
    return next(known, FUSED_KERNELS[0])
