"""How much memory one attention call holds beyond its inputs, by implementation and length.

Shows the T x T tensor: naive attention peaks at about two score tensors, PyTorch's math backend above that,
and the fused kernels at their output and a few tiles. Nothing is timed: where memory is counted, the profiler
or a cold allocator would be in the figure.
"""

from __future__ import annotations

from typing import ClassVar

from lab.measure.experiments.base import Experiment


class Memory(Experiment):
    """Peak memory of one call: the memory part alone."""

    name: ClassVar[str] = "memory"
    parts: ClassVar[tuple[str, ...]] = ("memory",)
