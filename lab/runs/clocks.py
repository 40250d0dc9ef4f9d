"""Two clocks side by side: a call timed by our protocol and by another tool, and whether they agree. No torch."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from lab.runs.checks import Check, Record, flag, one_of, seconds, whole
from lab.runs.spec import IMPLEMENTATIONS

TORCH_TIMER, TRITON_TIMER = "torch.utils.benchmark", "triton.testing.do_bench"
JUDGED = (TORCH_TIMER,)
"""Triton's timer empties the card's cache before each call, ours and PyTorch's do not: shown, not judged."""
BUSY = "not judged: busy"
MOST_APART = 0.05  # of our time and another tool's


@dataclass(frozen=True)
class TwoClocks(Record):
    """One cell by our protocol and, right after it, by another tool.

    Args:
        implementation: what was timed.
        kv_len: at which length.
        tool: the other tool.
        ours_s: our median.
        theirs_s: the other tool's.
        clean: whether the machine was quiet for both.
    """

    implementation: str
    kv_len: int
    tool: str
    ours_s: float
    theirs_s: float
    clean: bool

    CHECKS: ClassVar[Mapping[str, Check]] = {
        "implementation": one_of(*IMPLEMENTATIONS),
        "kv_len": whole(1),
        "tool": one_of(TORCH_TIMER, TRITON_TIMER),
        "ours_s": seconds,
        "theirs_s": seconds,
        "clean": flag,
    }


@dataclass(frozen=True)
class Agreement:
    """What the pairs of times of one cell and one tool say.

    Args:
        implementation, kv_len, tool: of the cell.
        ours_s, theirs_s: medians over the clean pairs; over all where none is clean.
        ratio: median of ours over theirs, pair by pair.
        clean: how many pairs were clean.
        pairs: how many there are.
    """

    implementation: str
    kv_len: int
    tool: str
    ours_s: float
    theirs_s: float
    ratio: float
    clean: int
    pairs: int

    @property
    def verdict(self) -> str:
        """Whether the two clocks agree, in words."""
        if self.tool not in JUDGED:
            return "not judged"
        if not self.clean:
            return BUSY
        return "met" if abs(self.ratio - 1) <= MOST_APART else "MISSED"


def agreements(pairs: Iterable[TwoClocks]) -> tuple[Agreement, ...]:
    """Summarise pairs of times cell by cell.

    Args:
        pairs: in any order.

    Returns:
        One agreement for each cell and tool, in the order they first came.
    """
    groups: dict[tuple[str, int, str], list[TwoClocks]] = {}
    for each in pairs:
        groups.setdefault((each.implementation, each.kv_len, each.tool), []).append(each)
    found = []
    for cell, group in groups.items():
        clean = [each for each in group if each.clean]
        used = clean or group
        ours, theirs = ([getattr(each, name) for each in used] for name in ("ours_s", "theirs_s"))
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        medians = statistics.median(ours), statistics.median(theirs)
        found.append(Agreement(*cell, *medians, ratio, len(clean), len(group)))
    return tuple(found)
