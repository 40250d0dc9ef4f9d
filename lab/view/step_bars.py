"""A whole decode step as bars: reading the weights, reading the cache, one row a batch."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from lab.cost import serving
from lab.cost.budget import budget
from lab.cost.predict import Bound, Ceilings, bound_seconds
from lab.cost.shapes import ModelShape, Workload
from lab.cost.step_weights import step_weights
from lab.view import bars as drawing
from lab.view import skeleton
from lab.view.axes import seconds_axis
from lab.view.bars import Bars, Part, Segment
from lab.view.format import bytes_text, seconds_text, share, times, tokens_label
from lab.view.palette import WEIGHTS, Palette
from lab.view.scenario import Scenario

WEIGHTS_PART, CACHE_PART = "weights", "cache"
BATCHES = (1, 4, 16)
COMPARED = BATCHES[-1]


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


def takeaway(model: ModelShape, one: Step, many: Step) -> str:
    """What a batch takes beside one sequence."""
    read = "each weight it uses" if step_weights(model).mixtures else "the weights"
    return (
        f"A whole step reads {read} once for all: {many.batch} sequences take "
        f"{times(many.seconds / one.seconds)} as long as one at best, each token "
        f"{share(many.seconds_per_token / one.seconds)} of a lone one's time"
    )


def dearer(batch: int, ratio: float) -> str:
    """Whether sequences together are cheaper than one by one.

    Args:
        batch: sequences.
        ratio: of their time together to that of one.
    """
    if ratio < 1.25:
        return "barely dearer"
    return "less than one by one" if ratio < 0.9 * batch else "no less than one by one"


def show(page: str, scene: Scenario, limits: Ceilings, palette: Palette) -> Step:
    """Draw the steps of some batches under what they show.

    Args:
        page: the page's file name.
        scene: the scenario.
        limits: the device's ceilings.
        palette: of the theme in use.

    Returns:
        The step of the scenario's batch.
    """
    model, T = scene.model, scene.context
    rows = sorted({*BATCHES, scene.batch})
    steps = {size: step(model, size, T, scene.dtype, limits) for size in rows}
    one, now = steps[1], steps[scene.batch]
    many = steps[COMPARED]
    skeleton.takeaway(takeaway(model, one, many))
    skeleton.badges(measured=False, recorded_on=None)
    if step_weights(model).mixtures:
        least, most = (bytes_text(found.weights.terms[0].bytes_moved, scene.binary) for found in (one, many))
        st.markdown(
            f"The experts make it dearer: the tokens of {many.batch} sequences choose different ones, so a step "
            f"reads {most} of weights, for one sequence {least}. Once a batch uses them all, they cost no more."
        )
    longest = max(found.seconds for found in steps.values())
    figure = drawing.draw(
        bars(list(steps.values()), palette),
        x=seconds_axis(f"least time of a step, {limits.name}", [longest * 1.5], linear=True), palette=palette,
        description="Least time of a decode step by batch: weights and cache.",
        height_px=90 + 44 * len(steps),
    )  # fmt: skip
    skeleton.show(figure, f"{page}_steps")
    limited = now.weights.limited_by, now.cache.limited_by
    by = f"weights and cache are both limited by {limited[0]}"
    if limited[0] != limited[1]:
        by = f"the weights are limited by {limited[0]}, the cache by {limited[1]}"
    st.caption(
        f"All layers of {model.name} at T = {tokens_label(T)}, the ceilings of {limits.name}: a bound, not a "
        f"measurement. It lets even a lone sequence's cache use the whole bandwidth. At batch {scene.batch} {by}."
    )
    return now
