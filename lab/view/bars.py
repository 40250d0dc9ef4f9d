"""Horizontal bars in stacked segments, one row a case: memory of a card, factors of a technique, blocks.

The spec stays constant while the data change, as in charts.py: rows, parts and the axis are explicit, and
the segments come under fixed names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from lab.view import charts, looks
from lab.view.axes import Axis
from lab.view.palette import DASHES, Palette

_COLUMNS = {
    "segments": {**dict.fromkeys(("row", "part", "what"), "str"), "start": "float64", "end": "float64"},
    "inside": {**dict.fromkeys(("row", "text"), "str"), "x": "float64"},
    "ends": {**dict.fromkeys(("row", "text"), "str"), "x": "float64"},
    "limits": {"x": "float64", "text": "str"},
    "points": {**dict.fromkeys(("row", "what"), "str"), "x": "float64"},
}


@dataclass(frozen=True)
class Part:
    """What a colour stands for.

    Args:
        key: identifies it in the data and stands in the legend.
        colour: "#RRGGBB".
    """

    key: str
    colour: str


@dataclass(frozen=True)
class Segment:
    """A piece of one row's bar.

    Args:
        row: the row's name.
        part: key of a Part.
        start: where it begins on the axis.
        end: where it ends.
        what: the tooltip's sentence.
        inside: words written in its middle; shown where they fit.
    """

    row: str
    part: str
    start: float
    end: float
    what: str
    inside: str = ""


@dataclass(frozen=True)
class Bars:
    """Everything a chart of bars holds.

    Args:
        rows: names in order, the first on top.
        parts: the colours, in the legend's order.
        segments: the pieces; those outside the axis are cut at its ends.
        ends: (row, x, words) written to the right of a bar.
        limits: (x, words): dashed rules up the chart.
        points: (row, x, words): what was measured, drawn over the bar.
    """

    rows: Sequence[str]
    parts: Sequence[Part]
    segments: Sequence[Segment]
    ends: Sequence[tuple[str, float, str]] = ()
    limits: Sequence[tuple[float, str]] = ()
    points: Sequence[tuple[str, float, str]] = ()


def faded(colour: str, palette: Palette, strength: float = 0.5) -> str:
    """A colour thinned with the page behind it, so that it needs no transparency.

    Args:
        colour: "#RRGGBB".
        palette: of the theme in use.
        strength: 0 for the background alone, 1 for the colour alone.
    """
    channels = ((int(colour[at : at + 2], 16), int(palette.background[at : at + 2], 16)) for at in (1, 3, 5))
    return "#" + "".join(f"{round(strength * own + (1 - strength) * behind):02X}" for own, behind in channels)


def draw(
    bars: Bars, *, x: Axis, palette: Palette, description: str, height_px: int, legend: bool = True
) -> charts.Figure:
    """Draw horizontal bars.

    Args:
        bars: rows, parts and segments.
        x: the axis that all rows share.
        palette: of the theme in use.
        description: what the chart shows, in constant words.
        height_px: height of the chart with its axis.
        legend: whether the parts' names stand above the chart.
    """
    look = (tuple(bars.rows), tuple(bars.parts), palette.name == "dark", height_px, legend)
    spec = looks.with_axes(_spec, {"x": x}, *look)
    return charts.Figure(spec, _frames(bars, x), description, {"x": x})


def _spec(
    x: Axis, drawn: tuple[str, ...], parts: tuple[Part, ...], dark: bool, height_px: int, legend: bool
) -> dict[str, Any]:
    palette = charts.PALETTES[dark]
    across: dict[str, Any] = {"scale": alt.Scale(**x.scale()), "axis": alt.Axis(**x.axis())}
    rows = alt.Y(
        "row:N",
        scale=alt.Scale(domain=list(drawn), paddingInner=0.3, paddingOuter=0.2),
        axis=alt.Axis(title=None, labelLimit=230, ticks=False, domain=False, labelPadding=8),
    )
    layers = [
        _segments(parts, across, rows, palette, legend=legend),
        *_limits(across, palette),
        _inside(across, rows, palette),
        _ends(across, rows, palette),
        _points(across, rows, palette),
    ]
    chart = alt.layer(*layers).properties(height=height_px, width="container")
    spec = chart.to_dict(validate=True, context={"datasets": {}})
    spec.pop("datasets", None)
    spec |= {"config": charts.config(palette), "padding": {"left": 2, "right": 2, "top": 6, "bottom": 2}}
    spec["autosize"] = {"type": "fit", "contains": "padding"}
    return spec


def _segments(
    parts: Sequence[Part], across: dict[str, Any], rows: alt.Y, palette: Palette, *, legend: bool
) -> alt.Chart:
    keys = [part.key for part in parts]
    shown = alt.Legend(
        orient="top", title=None, labelFontSize=13, labelColor=palette.text, labelLimit=320, symbolSize=180,
        columnPadding=10, symbolType="square", symbolStrokeWidth=0,
    )  # fmt: skip
    colour = alt.Color(
        "part:N",
        scale=alt.Scale(domain=keys, range=[part.colour for part in parts]),
        legend=shown if legend else None,
    )
    return (
        alt.Chart(alt.NamedData(name="segments"))
        .mark_bar(stroke=palette.background, strokeWidth=1, clip=True)
        .encode(
            x=alt.X("start:Q", **across),
            x2="end:Q",
            y=rows,
            color=colour,
            tooltip=[alt.Tooltip("row:N", title="row"), alt.Tooltip("what:N", title="shows")],
        )
    )


def _limits(across: dict[str, Any], palette: Palette) -> list[alt.Chart]:
    base = alt.Chart(alt.NamedData(name="limits")).encode(x=alt.X("x:Q", **across))
    colour = palette.roles["limit"]
    return [
        base.mark_rule(color=colour, strokeDash=DASHES["limit"], strokeWidth=2, clip=True),
        base.mark_text(color=colour, fontSize=13, align="right", baseline="top", dx=-5, dy=1).encode(
            y=alt.value(0), text="text:N"
        ),
    ]


def _inside(across: dict[str, Any], rows: alt.Y, palette: Palette) -> alt.Chart:
    return (
        alt.Chart(alt.NamedData(name="inside"))
        .mark_text(fontSize=13, fontWeight=600, baseline="middle", clip=True, color=palette.background)
        .encode(x=alt.X("x:Q", **across), y=rows, text="text:N")
    )


def _points(across: dict[str, Any], rows: alt.Y, palette: Palette) -> alt.Chart:
    return (
        alt.Chart(alt.NamedData(name="points"))
        .mark_point(
            shape="circle", filled=True, size=150, opacity=1, color=palette.roles["fused"],
            stroke=palette.background, aria=True, description="measured point",
        )
        .encode(x=alt.X("x:Q", **across), y=rows, tooltip=[alt.Tooltip("what:N", title="measured here")])
    )  # fmt: skip


def _ends(across: dict[str, Any], rows: alt.Y, palette: Palette) -> alt.Chart:
    return (
        alt.Chart(alt.NamedData(name="ends"))
        .mark_text(fontSize=14, fontWeight=600, align="left", baseline="middle", dx=7, color=palette.text)
        .encode(x=alt.X("x:Q", **across), y=rows, text="text:N")
    )


def _frames(bars: Bars, x: Axis) -> dict[str, pd.DataFrame]:
    drawn = [
        (segment, max(x.low, min(x.high, segment.start)), max(x.low, min(x.high, segment.end)))
        for segment in bars.segments
    ]
    found: dict[str, list[dict[str, Any]]] = {
        "segments": [
            {"row": one.row, "part": one.part, "what": one.what, "start": start, "end": end}
            for one, start, end in drawn
            if start != end
        ],
        "inside": [
            {"row": one.row, "text": one.inside, "x": _middle(x, start, end)}
            for one, start, end in drawn
            if one.inside and _fits(one.inside, x, start, end)
        ],
        "ends": [{"row": row, "text": text, "x": at} for row, at, text in bars.ends if x.holds(at)],
        "limits": [{"x": at, "text": text} for at, text in bars.limits if x.holds(at)],
        "points": [{"row": row, "x": at, "what": what} for row, at, what in bars.points if x.holds(at)],
    }
    return {
        name: pd.DataFrame(found[name], columns=list(columns)).astype(columns)
        for name, columns in _COLUMNS.items()
    }


def _middle(x: Axis, start: float, end: float) -> float:
    return x.value((x.position(start) + x.position(end)) / 2)


def _fits(words: str, x: Axis, start: float, end: float) -> bool:
    """Whether words fit a segment on a chart some 480 pixels wide, the narrowest screen that counts."""
    return abs(x.position(end) - x.position(start)) * 480 > 8 * len(words)
