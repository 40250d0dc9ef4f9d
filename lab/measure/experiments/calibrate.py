"""The constants of this device: rates of copies, products and passes, shares of fused kernels, starts.

No cell is measured: what it tells are its ceilings, with the whole calibration by dtype beside them.
"""

from __future__ import annotations

from typing import ClassVar

import torch

from lab.cost.calibration import Calibration
from lab.measure.calibrate import LIMIT_S, QUICK, ROUNDS, Tally, calibrate
from lab.measure.events import Events
from lab.measure.experiments.base import Experiment
from lab.measure.gate import gate_for
from lab.measure.job import Job
from lab.runs.calibrations import Noise


class Calibrate(Experiment):
    """A calibration of the device in the job's dtype, and in fp32 where kernels promote that dtype."""

    name: ClassVar[str] = "calibrate"
    parts: ClassVar[tuple[str, ...]] = ("time",)

    def run(self, job: Job, part: str, events: Events) -> None:
        """Run the part that times.

        Args:
            job: device, dtype and threads.
            part: "time"; the others have nothing to do.
            events: where progress and ceilings are told.
        """
        events.plan(0)
        if part not in self.parts:
            return
        if job.device.kind not in ("cpu", "cuda"):
            events.warning(f"{job.device.kind} is not calibrated: that is done on the CPU and on CUDA cards")
            return
        gate = gate_for(job.device.kind, torch.get_num_threads())
        protocol = QUICK if job.spec.quick else ROUNDS
        said, tally = "starting", Tally()

        def tell(what: str) -> None:
            nonlocal said
            said = what
            events.progress(what)

        def step() -> None:
            events.step()
            events.progress(said)

        calibration = calibrate(
            job.device, job.dtype, gate, protocol=protocol, tell=tell, plan=events.plan, step=step, tally=tally,
            limit_s=LIMIT_S,
        )  # fmt: skip
        self._tell(calibration, tally, events)

    def _tell(self, calibration: Calibration, tally: Tally, events: Events) -> None:
        """Tell the ceilings, with the whole calibration and how quiet it was."""
        each = [calibration] if calibration.wide is None else [calibration, calibration.wide]
        largest = calibration.bandwidth.points[-1]
        events.ceilings(
            {
                "flops_per_s": calibration.matmul.value,
                "copy_bytes_per_s": largest[1],
                "how": f"{calibration.matmul.source}; copy of {largest[0] / 2**21:.0f} MiB",
                "calibrations": {found.dtype: found.to_dict() for found in each},
                "micro_benchmarks": {"timed": tally.timed, "never_quiet": tally.never_quiet},
            }
        )
        noise = Noise(tally.timed, tally.never_quiet)
        if noise.noisy:
            events.warning(noise.sentence)
