"""Online softmax on real numbers, block by block: the chart of the scores and the table of running values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from lab.cost.online_softmax import SoftmaxStep, direct_softmax, online_softmax
from lab.view.charts import FONT, PALETTES, Figure
from lab.view.format import digits
from lab.view.palette import FUSED, NAIVE, Palette

KEYS = 32
BLOCKS = {"4": "4", "8": "8", "16": "16"}
SEED = 26  # the running maximum rises in more than one block, so that sums are seen to be rescaled
HEIGHT_PX = 230
BEFORE, NOW, AFTER = "seen before", "this block", "still to come"
MAXIMUM = "running maximum m"


@dataclass(frozen=True, eq=False)  # each is itself alone: `walk` makes it once
class Walk:
    """One query over its keys, in blocks.

    Args:
        steps: the state after each block.
        direct: the same output with all scores at once.
    """

    steps: tuple[SoftmaxStep, ...]
    direct: np.ndarray

    def difference(self, step: int) -> float:
        """Largest difference between the output after a block (counted from 1) and the direct one."""
        return float(np.abs(self.steps[step - 1].output - self.direct).max())

    @property
    def rounding(self) -> float:
        """The spacing of float64 numbers at the size of the output: what rounding can amount to."""
        return float(np.spacing(np.abs(self.direct).max()))


@cache
def walk(head_dim: int, block: int) -> Walk:
    """Walk over KEYS keys of a query drawn at random, always the same.

    Args:
        head_dim: width of a head.
        block: keys a step.
    """
    random = np.random.default_rng(SEED)
    query, keys, values = (random.standard_normal(shape) for shape in ((head_dim,), *((KEYS, head_dim),) * 2))
    steps = tuple(online_softmax(query, keys, values, block))
    return Walk(steps, direct_softmax(query, keys, values))


def most_off(head_dim: int) -> float:
    """The largest difference between the last output and the direct one, over every size of block.

    Args:
        head_dim: width of a head.
    """
    walks = [walk(head_dim, int(block)) for block in BLOCKS]
    return max(one.difference(len(one.steps)) for one in walks)


@cache
def table(found: Walk, step: int) -> pd.DataFrame:
    """The running values after each block up to a step, as text."""
    rows = [
        {
            "block": str(number),
            "keys": f"{state.first_key} … {state.last_key - 1}",
            "largest": digits(float(state.scores.max()), 4),
            "maximum m": digits(state.maximum, 4),
            "rescaled by": digits(state.rescale, 4),
            "sum l": digits(state.total, 5),
            "out₁": digits(float(state.output[0]), 5),
            "off direct": f"{found.difference(number):.1e}",
        }
        for number, state in enumerate(found.steps[:step], 1)
    ]
    return pd.DataFrame(rows)


@cache
def scores(found: Walk, step: int) -> pd.DataFrame:
    """Every score, when it is seen, and the running maximum; of blocks to come no maximum is known."""
    rows = []
    for number, state in enumerate(found.steps, 1):
        seen = NOW if number == step else BEFORE if number < step else AFTER
        for place, score in enumerate(state.scores):
            maximum = state.maximum if number <= step else None
            rows.append((state.first_key + place, float(score), seen, maximum))
    data = pd.DataFrame(rows, columns=["key", "score", "seen", "maximum"])
    return data.astype({"key": "int64", "score": "float64", "seen": "str"})


def figure(found: Walk, step: int, palette: Palette) -> Figure:
    """Scores as bars in the order of the keys, with the running maximum as a stair over them.

    Args:
        found: the walk.
        step: the block shown, counted from 1.
        palette: of the theme in use.
    """
    data = scores(found, step)
    lowest, highest = float(data["score"].min()), float(data["score"].max())
    words = "Scores of one query with its keys in order, and the running maximum after each block."
    return Figure(_spec(lowest, highest, palette.name == "dark"), {"scores": data}, words)


@lru_cache(maxsize=64)
def _spec(lowest: float, highest: float, dark: bool) -> dict[str, Any]:
    """The look, which no step changes."""
    palette = PALETTES[dark]
    x = alt.X("key:O", title="key", axis=alt.Axis(labelAngle=0, labelOverlap="greedy"))
    scale = alt.Scale(domain=[lowest - 0.1, highest + 0.3], nice=False)
    y = alt.Y("score:Q", title="score, scaled", scale=scale, axis=alt.Axis(tickCount=5))
    colours = [palette.ramp[2], palette.roles[FUSED], palette.grid, palette.roles[NAIVE]]
    scale_of_kinds = alt.Scale(domain=[BEFORE, NOW, AFTER, MAXIMUM], range=colours)
    colour = alt.Color(
        "seen:N", title=None, scale=scale_of_kinds,
        legend=alt.Legend(orient="top", labelColor=palette.text, labelFontSize=14),
    )  # fmt: skip
    base = alt.Chart(alt.NamedData(name="scores"))
    bars = base.mark_bar().encode(
        x=x, y=y, color=colour,
        tooltip=[alt.Tooltip("key:O"), alt.Tooltip("score:Q", format=".4f"), alt.Tooltip("seen:N")],
    )  # fmt: skip
    known = base.transform_filter("isValid(datum.maximum)")
    stair = known.mark_line(interpolate="step", strokeWidth=3, clip=True).encode(
        x=x, y=alt.Y("maximum:Q", scale=scale), color=alt.ColorDatum(MAXIMUM, type="nominal")
    )
    chart = alt.layer(bars, stair).properties(height=HEIGHT_PX, width="container")
    spec = chart.to_dict(validate=True, context={"datasets": {}})
    spec.pop("datasets", None)
    text = {"labelColor": palette.text, "titleColor": palette.text, "labelFontSize": 14, "titleFontSize": 14}
    spec |= {
        "config": {
            "background": "transparent", "font": FONT, "view": {"stroke": None},
            "axis": {**text, "gridColor": palette.grid, "domainColor": palette.text},
        },
        "autosize": {"type": "fit", "contains": "padding"},
    }  # fmt: skip
    return spec
