"""A first look at this machine in about five seconds: naive attention against PyTorch's default, at a few
lengths.

The protocol is that of `scaling` with less patience: a shorter warm-up, and rounds that stop early on a slow
or busy machine. Its points say so where it matters.
"""

from __future__ import annotations

from typing import ClassVar

from lab.measure.experiments.base import Experiment
from lab.measure.protocol import Protocol
from lab.runs import JobSpec


class Selftest(Experiment):
    """Time and peak memory of naive attention and PyTorch's default dispatch, quickly."""

    name: ClassVar[str] = "selftest"

    def protocol(self, spec: JobSpec) -> Protocol:
        """Choose a protocol that ends soon.

        Args:
            spec: rounds and seed.

        Returns:
            The protocol.
        """
        return Protocol(rounds=spec.rounds, seed=spec.seed, warm_up_s=0.1, budget_s=1.0, patience_s=0.2)
