"""What a card can serve: deployments by KV type, their memory as bars, their steps as a trade-off."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from lab.cost.deployment import Deployment, reserve
from lab.cost.formulas import logits_bytes
from lab.cost.predict import Bound, Ceilings, bound_seconds
from lab.cost.shapes import ModelShape, weight_bytes
from lab.cost.storage import STORAGE
from lab.cost.terms import cards_for_weights, score_peak_bytes, sequences_that_fit, step_bytes, step_flops
from lab.view.axes import Axis
from lab.view.bars import Bars, Part, Segment, faded
from lab.view.capacity import Capacity
from lab.view.charts import LABEL_HEIGHT_PX
from lab.view.counted import counted
from lab.view.format import bytes_text, digits
from lab.view.palette import WEIGHTS, Palette

NARROWER = ("fp8", "q8_0", "q4_0")
"""Storage types of a cache that are compared with the scenario's own number type."""

WEIGHT, CACHE, LEFT, ACTIVATIONS, RESERVE = (*("weights", "KV cache", "left over", "activations", "reserve"),)
NAME_WIDTH = 0.35  # of the axis: no line further right runs through a name
LOGITS_ELEMENT = 4  # logits are sampled from in fp32


@dataclass(frozen=True)
class Option:
    """One way to serve a model on a card, and the sequences that fit."""

    name: str
    deployment: Deployment
    capacity: Capacity

    @property
    def weight_bytes(self) -> int:
        """All parameters, in the deployment's dtype."""
        return weight_bytes(self.deployment.model, STORAGE[self.deployment.dtype].row(1))

    @property
    def sequence_bytes(self) -> int:
        """The cache of one sequence."""
        return reserve(self.deployment, 1).reserved_bytes

    @property
    def sequences(self) -> int:
        """Sequences whose cache fits beside the weights."""
        return sequences_that_fit(self.deployment, self.capacity.usable_bytes)

    @property
    def fitting(self) -> str:
        """The sequences that fit, in words."""
        return counted(self.sequences, "sequence")

    @property
    def cards(self) -> int:
        """Such cards that the weights alone take."""
        return cards_for_weights(self.deployment, self.capacity.usable_bytes)

    @property
    def activation_bytes(self) -> int:
        """A lower bound: the attention call of one prompt being read, and the logits of a step."""
        peak = score_peak_bytes(self.deployment) or 0
        return peak + int(
            logits_bytes(max(1, self.sequences), 1, self.deployment.model.vocab, LOGITS_ELEMENT)
        )


def option(
    name: str, model: ModelShape, context: int, dtype: str, kv_type: str, capacity: Capacity
) -> Option | None:
    """A way to serve, or None where the storage type cannot hold the model's rows.

    Args:
        name: what the row is called.
        model: any shape.
        context: tokens of every sequence.
        dtype: of weights and activations.
        kv_type: storage of K and V.
        capacity: the card's memory.
    """
    deployment = Deployment(
        model=model, batch=1, context=context, max_context=context, dtype=dtype, k_type=kv_type,
        v_type=kv_type, implementation="flash",
    )  # fmt: skip
    found = Option(name, deployment, capacity)
    try:
        reserve(deployment, 1)
    except ValueError:
        return None
    return found


def step_bound(deployment: Deployment, ceilings: Ceilings, *, with_flops: bool) -> Bound:
    """The least time of one decode step of a deployment's batch.

    Args:
        deployment: a model at work.
        ceilings: of the card.
        with_flops: False where the card states no matmul rate for the dtype: bytes alone then bound it.
    """
    flops = step_flops(deployment) if with_flops else 0
    return bound_seconds(flops, step_bytes(deployment), ceilings)


def batches(most: int) -> list[int]:
    """Powers of two up to the sequences that fit, and that number itself."""
    return sorted({2**power for power in range(most.bit_length())} | {most}) if most else []


def rates_axis(rates: list[float]) -> Axis:
    """Tokens a second on log10, whole decades around the values, the right third kept for labels.

    Args:
        rates: what will be drawn; none for an empty axis.
    """
    low = math.floor(math.log10(min(rates, default=1.0)))
    high = max(low + 1, math.ceil(math.log10(max(rates, default=1.0))))
    ticks = tuple((10.0**power, digits(10.0**power)) for power in range(low, high + 1))
    room = 10.0 ** (0.5 * (high - low))
    return Axis("tokens a second, all sequences together", 10.0**low, 10.0**high * room, ticks, 10)


def clear_of_lines(labels: pd.DataFrame, x: Axis, y: Axis, height_px: int) -> pd.DataFrame:
    """Move names right where a line that goes on further would run through them.

    Args:
        labels: the frame of `lab.view.frames`, a name at each line's end.
        x: the horizontal axis.
        y: the vertical axis.
        height_px: height of the chart.

    Returns:
        The frame; a name stands where the rightmost line ends that rises through its place.
    """
    half = 0.5 * LABEL_HEIGHT_PX / height_px
    ends = [(x.position(at), y.position(height)) for at, height in zip(labels["x"], labels["y"], strict=True)]
    moved = [
        max(other for other, level in ends if level >= own - half and other - at < NAME_WIDTH)
        for at, own in ends
    ]
    return labels.assign(x=[x.value(place) for place in moved])


def memory_bars(options: list[Option], palette: Palette, binary: bool) -> Bars:
    """One row an option: weights, cache, what is left of the usable part, activations, reserve."""
    segments, ends = [], []
    capacity = options[0].capacity
    for one in options:
        edges = [0, one.weight_bytes, one.weight_bytes + one.sequences * one.sequence_bytes]
        edges += [max(edges[-1], capacity.usable_bytes)]
        edges += [edges[-1] + one.activation_bytes]
        edges += [max(edges[-1], capacity.bytes)]
        held = f"{one.fitting} of {bytes_text(one.sequence_bytes, binary)}"
        for part, start, end in zip(
            (WEIGHT, CACHE, LEFT, ACTIVATIONS, RESERVE), edges, edges[1:], strict=False
        ):
            size = bytes_text(end - start, binary)
            what = f"{part} {size}" + (f": {held}" if part == CACHE else "")
            inside = held if part == CACHE else size if part == WEIGHT else ""
            segments.append(Segment(one.name, part, start, end, what, inside))
        ends.append(
            (one.name, edges[-1], one.fitting if one.weight_bytes <= capacity.usable_bytes else "too large")
        )
    parts = (
        Part(WEIGHT, palette.roles[WEIGHTS]),
        Part(CACHE, palette.ramp[2]),
        Part(LEFT, palette.grid),
        Part(ACTIVATIONS, palette.ramp[0]),
        Part(RESERVE, faded(palette.roles["limit"], palette)),
    )
    apart = capacity.bytes - capacity.usable_bytes > 0.06 * max(at for _, at, _ in ends)
    names = ("usable", "card") if apart else ("", "usable, card")
    limits = list(zip((float(capacity.usable_bytes), float(capacity.bytes)), names, strict=True))
    return Bars([one.name for one in options], parts, segments, ends, limits)
