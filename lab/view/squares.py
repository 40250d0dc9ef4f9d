"""The score matrix as a picture: T×T for T, 2T and 4T side by side, and the longest T that a memory holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import altair as alt
import pandas as pd

from lab.view.charts import FONT, PALETTES, Figure
from lab.view.format import tokens_label
from lab.view.palette import NAIVE, Palette

FACTORS = (1, 2, 4)
_SIDE_PX, _HEIGHT_PX, _BOTTOM_PX = 50, 270, 8
# Centres of the squares across the chart; they do not touch on the narrowest screen that counts.
_ACROSS = (0.15, 0.38, 0.76)
_DESCRIPTION = "Squares of T by T for T, twice T and four times T: each cell is the first square."


def figure(tokens: int, size: Callable[[int], int], text: Callable[[float], str], palette: Palette) -> Figure:
    """Draw the squares, each cut into as many of the first as it holds.

    Args:
        tokens: T.
        size: bytes of the tensor at a length.
        text: writes a number of bytes.
        palette: of the theme in use.
    """
    rows = []
    for factor, x in zip(FACTORS, _ACROSS, strict=True):
        side = _SIDE_PX * factor
        length, held = factor * tokens, size(factor * tokens)
        middle, top = (_BOTTOM_PX + side / 2) / _HEIGHT_PX, (_BOTTOM_PX + side) / _HEIGHT_PX
        label = f"T = {tokens_label(length)}: {text(held)}"
        rows.append((str(factor), length, float(held), label, x, middle, top))
    columns = ["factor", "tokens", "bytes", "label", "across", "middle", "top"]
    data = pd.DataFrame(rows, columns=columns)
    return Figure(_spec(palette.name == "dark"), {"squares": data}, _DESCRIPTION)


@lru_cache(maxsize=2)
def _spec(dark: bool) -> dict[str, Any]:
    """The look, which no scenario changes."""
    palette = PALETTES[dark]
    base = alt.Chart(alt.NamedData(name="squares")).encode(x=_place("across"))
    layers = [
        base.transform_filter(alt.datum.factor == str(factor))
        .mark_point(
            shape=_grid(factor), size=(_SIDE_PX * factor) ** 2, filled=True, opacity=1,
            fill=palette.roles[NAIVE], stroke=palette.background, strokeWidth=1.5, aria=True,
            description="square of T by T",
        )
        .encode(y=_place("middle"), tooltip=[alt.Tooltip("label:N", title="one score tensor")])
        for factor in FACTORS
    ]  # fmt: skip
    words = base.mark_text(color=palette.text, fontSize=14, fontWeight=600, baseline="bottom", dy=-5)
    chart = alt.layer(*layers, words.encode(y=_place("top"), text="label:N"))
    spec = chart.properties(height=_HEIGHT_PX, width="container").to_dict(context={"datasets": {}})
    spec.pop("datasets", None)
    spec |= {"config": {"background": "transparent", "font": FONT, "view": {"stroke": None}}}
    return spec | {"autosize": {"type": "fit", "contains": "padding"}}


def _place(field: str) -> Any:
    """A place in the chart, from its lower left corner: 0 to 1, without an axis."""
    channel = alt.X if field == "across" else alt.Y
    return channel(f"{field}:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=None)


def _grid(cells: int) -> str:
    """A square as an SVG path between -1 and 1, with lines that cut it into so many cells a side."""
    inner = [-1 + 2 * cell / cells for cell in range(1, cells)]
    lines = [f"M{at},-1V1M-1,{at}H1" for at in inner]
    return "M-1,-1H1V1H-1Z" + "".join(lines)


def longest(peak: Callable[[int], int], memory_bytes: int) -> int:
    """The longest context whose peak a memory holds, in tokens; 0 where it holds none.

    Args:
        peak: bytes at a context, growing with it.
        memory_bytes: of the device.
    """
    low, high = 0, 1
    while peak(high) <= memory_bytes:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if peak(middle) <= memory_bytes else (low, middle)
    return low
