"""What was seen of one variant: its blocks, what to say of them, and whether their median can be believed."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field

from lab.measure.gate import Gate
from lab.runs import Timing

UNSURE = 0.01  # of the median: half its 95 % interval
MEDIAN_HALF_WIDTH = 1.96 * math.sqrt(math.pi / 2) / 1.349
"""Half the 95 % interval of a median, as interquartile ranges over the root of n, if samples were normal.

Source: a median's variance is pi/2 that of a mean; an interquartile range is 1.349 standard deviations.
"""
NOISY_SHARE = 0.25  # of kept samples taken while the machine was busy
NOISY_SPREAD = 0.20  # interquartile range over median
OTHERS_CORES = 0.5  # used by others, beyond those left to them: a block may look clean all the same


@dataclass
class Samples:
    """What was seen of one variant.

    Args:
        rounds: rounds asked for.
        calls: calls in a block.
        unsettled: spread of the last blocks of a warm-up that did not settle, or None.
        seconds: seconds per call of each block that was kept, in order.
        busy: how many of those were taken while the machine was busy.
        discarded: blocks thrown away.
        causes: why blocks were not clean, as the gate said each time.
        others: processors that other processes used meanwhile, or None where that is not known.
        free: processors that this process left to them.
    """

    rounds: int
    calls: int
    unsettled: float | None = None
    seconds: list[float] = field(default_factory=list)
    busy: int = 0
    discarded: int = 0
    causes: list[str] = field(default_factory=list)
    others: float | None = None
    free: int = 0

    @property
    def cause(self) -> str:
        """Why blocks were not clean, in words."""
        return " and ".join(dict.fromkeys(self.causes)) or Gate.cause

    def timing(self, first_call_s: float | None = None) -> Timing:
        """Summarise the samples.

        Args:
            first_call_s: the first call, taken apart.

        Returns:
            Median, quartiles and the raw samples.
        """
        low, middle, high = quartiles(self.seconds)
        return Timing(
            median_s=middle,
            q1_s=low,
            q3_s=high,
            n=len(self.seconds),
            samples_s=tuple(self.seconds),
            first_call_s=first_call_s,
            discarded_blocks=self.discarded,
        )

    @property
    def unsure(self) -> bool:
        """Whether the median's 95 % interval is wider than the protocol aims at."""
        low, middle, high = quartiles(self.seconds)
        return MEDIAN_HALF_WIDTH * (high - low) / math.sqrt(len(self.seconds)) > UNSURE * middle

    @property
    def noise(self) -> str | None:
        """Why the median is not to be trusted fully, in words, or None."""
        low, middle, high = quartiles(self.seconds)
        if self.busy > NOISY_SHARE * len(self.seconds):
            return f"{self.busy} of {len(self.seconds)} blocks were timed while {self.cause}"
        if self.others is not None and self.others - self.free >= OTHERS_CORES:
            return (
                f"other processes used {self.others:.1f} processors meanwhile; this one left {self.free} free"
            )
        if high - low > NOISY_SPREAD * middle:
            return f"the middle half of the samples spreads over {(high - low) / middle:.0%} of the median"
        return None

    def warnings(self) -> list[str]:
        """List what a reader should know of how the samples came about."""
        said = []
        if self.discarded:
            blocks = self.discarded + len(self.seconds)
            said.append(f"{self.discarded} of {blocks} blocks discarded: {self.cause}")
        if self.busy and self.noise is None:
            said.append(
                f"{self.busy} of {len(self.seconds)} blocks are kept though {self.cause}: patience was spent"
            )
        if len(self.seconds) < self.rounds:
            said.append(f"{len(self.seconds)} of {self.rounds} rounds done: the time budget was spent")
        if self.unsettled is not None:
            said.append(f"warming up ended with the last three blocks {self.unsettled:.0%} apart")
        if self.others is not None and OTHERS_CORES <= self.others < self.free + OTHERS_CORES:
            said.append(
                f"other processes used {self.others:.1f} of the {self.free} processors left free: "
                "caches and memory were shared"
            )
        return said


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """Give the first quartile, the median and the third.

    Args:
        values: at least one.

    Returns:
        Three values, in order.
    """
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high
