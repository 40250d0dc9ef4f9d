"""How time and memory grow with the length, by implementation: the curve with exponent near 2.

Every implementation of a length is timed against the others in interleaved rounds, smallest length first.
Whether the causal mask saves anything is seen by running it causal and full.
"""

from __future__ import annotations

from typing import ClassVar

from lab.measure.experiments.base import Experiment


class Scaling(Experiment):
    """Time and peak memory of one call over whole sequences."""

    name: ClassVar[str] = "scaling"
