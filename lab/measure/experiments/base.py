"""What every experiment over a grid of cells shares: its shapes, its protocol and its two parts."""

from __future__ import annotations

from typing import ClassVar

from lab.cost.calls import AttentionCall
from lab.measure.ceilings import probe
from lab.measure.events import Events
from lab.measure.job import Job
from lab.measure.kernels import is_out_of_memory
from lab.measure.parts import Grid, memory_part, time_part
from lab.measure.protocol import Protocol
from lab.runs import JobSpec

QUICK = {"warm_up_s": 0.1, "budget_s": 2.0, "patience_s": 0.2, "extra_s": 0.0}
"""The protocol of a quick job: less warming up and waiting; its points say so where it matters."""


class Experiment:
    """Implementations x batches x lengths of self-attention; subclasses change what differs."""

    name: ClassVar[str]
    parts: ClassVar[tuple[str, ...]] = ("time", "memory")
    cold_cache: ClassVar[bool] = False

    def calls(self, job: Job) -> tuple[AttentionCall, ...]:
        """List the shapes, smallest first, so that a reader sees a point soon.

        Args:
            job: batches and lengths.

        Returns:
            One call per batch and length.
        """
        shapes = [self.shape(job, batch, length) for batch in job.spec.batches for length in job.spec.lengths]
        return tuple(sorted(shapes, key=lambda call: (call.scores, call.keys)))

    def shape(self, job: Job, batch: int, length: int) -> AttentionCall:
        """Make one shape: as many queries as keys.

        Args:
            job: heads, head_dim, dtype.
            batch: sequences.
            length: keys, and queries.

        Returns:
            The call.
        """
        return job.call(batch=batch, q_len=length, kv_len=length)

    def protocol(self, spec: JobSpec) -> Protocol:
        """Choose the numbers of the protocol.

        Args:
            spec: rounds and seed.

        Returns:
            The protocol.
        """
        if spec.quick:
            return Protocol(rounds=spec.rounds, seed=spec.seed, **QUICK)
        return Protocol(rounds=spec.rounds, seed=spec.seed)

    def run(self, job: Job, part: str, events: Events) -> None:
        """Run one part.

        Args:
            job: what is measured, and where.
            part: "time" or "memory".
            events: where points are told.
        """
        if part not in self.parts:
            events.plan(0)
            return
        grid = Grid(job, self.calls(job), job.cold_cache(self.cold_cache), events)
        if part == "memory":
            memory_part(grid)
            return
        time_part(grid, self.protocol(job.spec))
        self.tell_ceilings(job, events)

    def tell_ceilings(self, job: Job, events: Events) -> None:
        """Measure what the device reaches, after the last timed cell.

        Args:
            job: device and dtype.
            events: where it is told.
        """
        if events.ceilings_told:  # by an earlier experiment of the suite
            return
        events.progress("ceilings of this device")
        try:
            events.ceilings(probe(job))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            events.warning("The ceilings of this device were not measured: memory ran out.")
