"""A whole decode step as bars: reading the weights, reading the cache, one row a batch."""

from __future__ import annotations

from dataclasses import dataclass

from lab.cost import serving
from lab.cost.budget import budget
from lab.cost.predict import Bound, Ceilings, bound_seconds
from lab.cost.shapes import ModelShape, Workload
from lab.view.bars import Bars, Part, Segment
from lab.view.format import seconds_text
from lab.view.palette import WEIGHTS, Palette

WEIGHTS_PART, CACHE_PART = "weights", "cache"


@dataclass(frozen=True)
class Step:
    """The least time of one decode step of a whole model, in two parts.

    Args:
        batch: sequences.
        weights: the products with weight matrices, and reading them.
        cache: attention over the cache, and reading it.
    """

    batch: int
    weights: Bound
    cache: Bound

    @property
    def seconds(self) -> float:
        """Both parts, one after the other."""
        return self.weights.seconds + self.cache.seconds

    @property
    def seconds_per_token(self) -> float:
        """The step's time shared by its sequences."""
        return self.seconds / self.batch


def step(model: ModelShape, batch: int, context: int, dtype: str, limits: Ceilings) -> Step:
    """Bound one decode step from below.

    Args:
        model: any shape.
        batch: sequences.
        context: tokens of each.
        dtype: of weights and cache.
        limits: the device's ceilings.
    """
    read = serving.decode_traffic(model, batch, context, weight_type=dtype, k_type=dtype)
    work = budget(model, Workload(batch, context, 1, dtype, True))
    attention = work.core_flops + work.state_flops
    return Step(
        batch,
        bound_seconds(work.matmul_flops - attention, round(float(read.weight_bytes)), limits),
        bound_seconds(attention, int(read.cache_bytes), limits),
    )


def bars(steps: list[Step], palette: Palette) -> Bars:
    """One row a batch, the weights first.

    Args:
        steps: in the order of the rows.
        palette: of the theme in use.
    """
    rows, segments, ends = [], [], []
    for one in steps:
        row = f"batch {one.batch}"
        rows.append(row)
        whole, split = one.seconds, one.weights.seconds
        for part, start, end, bound in (
            (WEIGHTS_PART, 0.0, split, one.weights),
            (CACHE_PART, split, whole, one.cache),
        ):
            what = f"{part}: {seconds_text(bound.seconds)}, limited by {bound.limited_by}"
            segments.append(Segment(row, part, start, end, what, seconds_text(bound.seconds)))
        each = f", {seconds_text(one.seconds_per_token)} a token" if one.batch > 1 else ""
        ends.append((row, whole, f"{seconds_text(whole)}{each}"))
    parts = (Part(WEIGHTS_PART, palette.roles[WEIGHTS]), Part(CACHE_PART, palette.ramp[2]))
    return Bars(rows, parts, segments, ends)
