"""The two devices that a reading holds against each other: the one of the run, and the chapter's card."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from lab.cost.calibration import Calibration
from lab.cost.calls import AttentionCall
from lab.cost.catalog import card
from lab.cost.chapter_card import SHEET_ID, chapter_calibration
from lab.cost.prediction import Prediction
from lab.cost.tiles import causal_share, cpu_tile, cuda_tile
from lab.runs.calibrations import newest_calibration, predict_point
from lab.runs.point import Point
from lab.runs.reference import chapter_facts
from lab.runs.run import Run
from lab.runs.store import list_runs

FUSED = ("flash", "efficient")
THERE = {"naive": "naive", "math": "math", "flash": "efficient", "efficient": "efficient"}
"""The chapter's implementation that stands for each of ours: its build of PyTorch had no flash kernel."""
NARROW = ("fp16", "bf16")
CAPABILITY = re.compile(r"\d{1,2}\.\d")
FEWEST_ROWS = 32  # of a tile, see lab.cost.tiles
MOST_BLOCKS = 100_000
"""Blocks of queries whose tiles are counted: beyond this a share says nothing new and takes long to count."""


@dataclass(frozen=True)
class Side:
    """A device with what the predictor needs to know of it.

    Args:
        kind: "cpu" or "cuda", which stands for every accelerator, as lab.cost takes it.
        threads: of a CPU.
        multiprocessors: of an accelerator; None where not known.
        capability: compute capability of a CUDA card; None where not known.
        rates: gives the calibration in a number type, or None.
    """

    kind: str
    threads: int
    multiprocessors: int | None
    capability: str | None
    rates: Callable[[str], Calibration | None]

    def call(self, point: Point) -> AttentionCall:
        """Make the call of a point on this device."""
        return AttentionCall(**point.shape, threads=self.threads, device=self.kind)

    def predict(self, point: Point) -> Prediction | None:
        """Predict the time of a point's call; None where the device is not calibrated in its type."""
        calibration = self.rates(point.dtype)
        return None if calibration is None else predict_point(point, calibration)

    def share_of_pairs(self, point: Point) -> float | None:
        """Causal over full work of the busiest thread or multiprocessor of a fused kernel; None if not known."""
        if point.batch * point.heads * point.q_len > MOST_BLOCKS * FEWEST_ROWS:
            return None
        if self.kind == "cpu":
            tile, slots = cpu_tile(point.q_len, point.kv_len), self.threads
        elif self.multiprocessors is None or self.capability is None:
            return None
        else:
            tile = cuda_tile(point.implementation, point.head_dim, self.capability)
            slots = self.multiprocessors
        heads = point.batch * point.heads
        return causal_share(heads, point.q_len, point.kv_len, tile, slots, self.kind)


def kind_of(run: Run) -> str:
    """Tell the kind of device that a run was measured on, as `Side.kind`.

    Args:
        run: any.
    """
    return "cpu" if (run.environment.get("device_kind") or run.spec.device) == "cpu" else "cuda"


def side_of(run: Run) -> Side:
    """Describe the device of a run; its rates are of its newest calibration kept here, or in the run itself.

    Args:
        run: measured.
    """
    known, kind = run.environment, kind_of(run)
    count = _count(known.get("threads")) or 1
    wanted = count if kind == "cpu" else None

    def rates(dtype: str) -> Calibration | None:
        return newest_calibration((run, *list_runs()), run.device_key, dtype, wanted)

    slots, capability = _count(known.get("multiprocessors")), str(known.get("compute_capability"))
    return Side(kind, count, slots, capability if CAPABILITY.fullmatch(capability) else None, cache(rates))


def _count(value: object) -> int | None:
    """A whole number above 0 as it stands in an environment, which anybody may have written."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


@cache
def chapter_side() -> Side:
    """Describe the chapter's card; its rates are those it printed, and the cells that gave the others."""
    device = chapter_facts()["device"]

    def rates(dtype: str) -> Calibration | None:
        return (
            chapter_calibration(chapter_facts(), card(SHEET_ID), dtype) if dtype in ("fp16", "fp32") else None
        )

    return Side("cuda", 1, device["sm_count"], device["compute_capability"], cache(rates))


def counterpart(point: Point) -> Point:
    """Give the chapter's counterpart of a point: its implementation, and fp16 for every 16-bit type.

    Args:
        point: measured.

    Returns:
        The point with these names changed; one that the chapter has no counterpart of keeps its name.
    """
    name = THERE.get(point.implementation, point.implementation)
    return replace(point, implementation=name, dtype="fp16" if point.dtype in NARROW else point.dtype)
