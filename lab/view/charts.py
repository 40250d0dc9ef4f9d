"""Charts from data frames: a Vega-Lite spec that stays constant while its data change.

Lines are predictions, points are measurements, bars their spread, hollow points refusals (dashed ones noisy
measurements), long dashes limits. The data sit beside the spec under fixed names, so that a partial result
redraws marks and nothing else: an empty frame keeps its columns, every domain is explicit, no title holds a
live number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import altair as alt
import pandas as pd

from lab.view import looks
from lab.view.axes import Axis
from lab.view.palette import DARK, DASHES, LIGHT, SHAPES, Palette

FONT = '"Source Sans", "Source Sans Pro", "Segoe UI", sans-serif'
LABEL_HEIGHT_PX = 17
PALETTES = {False: LIGHT, True: DARK}
_POINT_STYLES: dict[str, dict[str, Any]] = {
    "recorded": {"filled": True, "size": 80, "opacity": 0.7},
    "pending": {"filled": True, "size": 120, "opacity": 0.4},
    "noisy": {"filled": False, "size": 120, "opacity": 0.8, "strokeWidth": 2, "strokeDash": [3, 3]},
    "measured": {"filled": True, "size": 150, "opacity": 1},
    "refused": {"filled": False, "size": 120, "opacity": 1, "strokeWidth": 2},
}


@dataclass(frozen=True)
class Series:
    """One line of a chart and the points that belong to it.

    Args:
        key: identifies it in the data.
        label: written at the line's end and in the tooltip.
        colour: "#RRGGBB".
        dash: on and off lengths in pixels.
        shape: of its points, a Vega shape name.
        width: of the line, in pixels.
        end: written at the line's end in place of the label; may follow the scenario, which the label must not.
    """

    key: str
    label: str
    colour: str
    dash: tuple[int, ...] = (1, 0)
    shape: str = "circle"
    width: float = 2.5
    end: str = ""


@dataclass(frozen=True)
class Figure:
    """A chart ready to be shown: the constant spec, and its data by name.

    Args:
        spec: Vega-Lite without data.
        data: the frames that the spec names.
        description: what the chart shows, in constant words.
        axes: by the name of the data's column that they measure, for the downloaded table.
        names: of the series, by key.
        without: names of empty frames that the spec does not draw.
    """

    spec: dict[str, Any]
    data: dict[str, pd.DataFrame]
    description: str
    axes: Mapping[str, Axis] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()

    def vega_lite(self) -> dict[str, Any]:
        """The spec with its data inside, as Streamlit and file exports take it."""
        drawn = {name: frame for name, frame in self.data.items() if name not in self.without}
        return self.spec | {"datasets": drawn}


def role_series(key: str, role: str, label: str, palette: Palette, width: float = 2.5) -> Series:
    """A series in the colour, dash and shape of its role."""
    return Series(key, label, palette.roles[role], tuple(DASHES[role]), SHAPES[role], width)


def curves(
    data: dict[str, pd.DataFrame],
    series: Sequence[Series],
    *,
    x: Axis,
    y: Axis,
    palette: Palette,
    description: str,
    height_px: int = 400,
    without: tuple[str, ...] = (),
) -> Figure:
    """Draw predicted lines with measured points over them.

    Args:
        data: the frames that `lab.view.frames.bundle` makes.
        series: the lines, in drawing order.
        x: the horizontal axis.
        y: the vertical axis.
        palette: of the theme in use.
        description: what the chart shows, in constant words.
        height_px: height of the chart with its axes.
        without: names of frames that this chart never fills; a chart whose axes follow the scenario is drawn from
            its spec at every step, and is quicker with fewer layers.
    """
    blanks = [
        replace(item, key=f"key of {i}", label=f"label of {i}", end="") for i, item in enumerate(series)
    ]
    names = {blank.key: item.key for blank, item in zip(blanks, series, strict=True)}
    names |= {blank.label: item.label for blank, item in zip(blanks, series, strict=True)}
    look = (tuple(blanks), palette.name == "dark", height_px, without)
    spec = looks.with_axes(_spec, {"x": x, "y": y}, *look, names=names)
    named = {item.key: item.label for item in series}
    return Figure(spec, data, description, {"x": x, "y": y}, named, without)


def _spec(
    x: Axis, y: Axis, series: tuple[Series, ...], dark: bool, height_px: int, without: tuple[str, ...]
) -> dict[str, Any]:
    palette = PALETTES[dark]
    colour = alt.Color(
        "series:N",
        scale=alt.Scale(domain=[s.key for s in series], range=[s.colour for s in series]),
        legend=None,
    )
    place = {"x": _channel(alt.X, "x", x), "y": _channel(alt.Y, "y", y)}
    layers = [
        *_limits(palette, place),
        _lines(series, colour, place),
        *_slopes(palette, place),
        *_notes(palette, place),
        _spread(colour, place["x"], _channel(alt.Y, "low", y)),
        *_points(series, colour, palette, place),
        _labels(colour, place),
        *_hover(series, palette, place, x.title),
    ]
    layers = [layer for layer in layers if layer.data.name not in without]
    chart = alt.layer(*layers).properties(height=height_px, width="container")
    spec = chart.to_dict(validate=True, context={"datasets": {}})
    spec.pop("datasets", None)
    spec |= {"config": config(palette), "padding": {"left": 2, "right": 2, "top": 6, "bottom": 2}}
    spec["autosize"] = {"type": "fit", "contains": "padding"}
    return spec


def _channel(kind: Any, field: str, axis: Axis) -> Any:
    return kind(f"{field}:Q", scale=alt.Scale(**axis.scale()), axis=alt.Axis(**axis.axis()))


def _chart(name: str) -> alt.Chart:
    return alt.Chart(alt.NamedData(name=name))


def _limits(palette: Palette, place: dict[str, Any]) -> list[alt.Chart]:
    """Dashed rules across the chart (memory of a card) and up it (a model's own context limit)."""
    colour = palette.roles["limit"]
    rule: dict[str, Any] = {"color": colour, "strokeDash": DASHES["limit"], "strokeWidth": 1.5, "clip": True}
    text: dict[str, Any] = {"color": colour, "fontSize": 13, "clip": True}
    across, up = _chart("limits_y"), _chart("limits_x")
    return [
        across.mark_rule(**rule).encode(y=place["y"]),
        across.mark_text(**text, align="left", baseline="bottom", dx=5, dy=-3, x=0).encode(
            y=place["y"], text="label:N"
        ),
        up.mark_rule(**rule).encode(x=place["x"]),
        _up_label(up, "right", **text, align="left", dx=5).encode(x=place["x"], text="label:N"),
        _up_label(up, "left", **text, align="right", dx=-5).encode(x=place["x"], text="label:N"),
    ]


def _up_label(rules: alt.Chart, side: str, **style: Any) -> alt.Chart:
    """The words of those rules that have room on one side."""
    return rules.transform_filter(alt.datum.side == side).mark_text(**style, baseline="top", y=3)


def _lines(series: Sequence[Series], colour: Any, place: dict[str, Any]) -> alt.Chart:
    domain = [s.key for s in series]
    dash = alt.Scale(domain=domain, range=[list(s.dash) for s in series])
    width = alt.Scale(type="ordinal", domain=domain, range=[s.width for s in series])
    return (
        _chart("lines")
        .mark_line(clip=True, strokeCap="butt")
        .encode(
            **place,
            color=colour,
            strokeDash=alt.StrokeDash("series:N", scale=dash, legend=None),
            strokeWidth=alt.StrokeWidth("series:O", sort=domain, scale=width, legend=None),
        )
    )


def _slopes(palette: Palette, place: dict[str, Any]) -> list[alt.Chart]:
    """Slope triangles: three corners each, and the sentence beside them."""
    triangle, words = _chart("slopes"), _chart("slope_labels")
    return [
        triangle.mark_line(color=palette.text, strokeWidth=1.5, clip=True).encode(
            **place, detail="triangle:N", order="corner:Q"
        ),
        words.mark_text(color=palette.text, fontSize=13, align="left", baseline="middle", dx=6).encode(
            **place, text="label:N"
        ),
    ]


def _notes(palette: Palette, place: dict[str, Any]) -> list[alt.Chart]:
    """The scenario's own place on the horizontal axis, and rings around places worth naming."""
    here, rings = _chart("marker_x"), _chart("notes")
    rule = here.mark_rule(color=palette.text, strokeWidth=1, opacity=0.6, clip=True).encode(x=place["x"])
    ring = rings.mark_point(shape="circle", filled=False, size=260, strokeWidth=2, color=palette.text)
    style: dict[str, Any] = {"align": "left", "baseline": "top", "dx": 12, "dy": 6, "fontSize": 14}
    halo = rings.mark_text(**style, fontWeight=600, color=palette.background).encode(
        **place, text="label:N", stroke=alt.value(palette.background), strokeWidth=alt.value(5)
    )
    text = rings.mark_text(**style, fontWeight=600, color=palette.text).encode(**place, text="label:N")
    return [rule, ring.encode(**place), halo, text]


def _spread(colour: Any, x: Any, low: Any) -> alt.Chart:
    return (
        _chart("points")
        .mark_rule(strokeWidth=3, opacity=0.9, clip=True)
        .encode(x=x, y=low, y2="high:Q", color=colour)
    )


def _points(
    series: Sequence[Series], colour: Any, palette: Palette, place: dict[str, Any]
) -> list[alt.Chart]:
    """Measured here: large. Noisy: hollow and dashed. Recorded elsewhere: smaller, fainter. Refused: hollow."""
    scale = alt.Scale(domain=[s.key for s in series], range=[s.shape for s in series])
    shape = alt.Shape("series:N", scale=scale, legend=None)
    base = _chart("points")
    layers = []
    for kind in _POINT_STYLES:
        marks = base.transform_filter(alt.datum.kind == kind)
        mark = marks.mark_point(**_POINT_STYLES[kind], clip=True, aria=True, description=f"{kind} point")
        if kind in ("refused", "noisy"):
            mark = mark.encode(fill=alt.value(palette.background))
        layers.append(mark.encode(**place, color=colour, shape=shape))
    return layers


def _labels(colour: Any, place: dict[str, Any]) -> alt.Chart:
    return (
        _chart("labels")
        .mark_text(align="left", baseline="middle", dx=7, fontSize=14, fontWeight=600)
        .encode(**place, text="label:N", color=colour)
    )


def _hover(
    series: Sequence[Series], palette: Palette, place: dict[str, Any], x_title: str
) -> list[alt.Chart]:
    """A rule under the pointer; a wide transparent one per x, drawn last, owns the selection and the
    tooltip."""
    near = alt.selection_point(
        name="near", nearest=True, encodings=["x"], on="pointermove", clear="pointerout", empty=False
    )
    tooltip = [alt.Tooltip("at:N", title=x_title)]
    tooltip += [alt.Tooltip(f"{s.key}:N", title=s.label) for s in series]
    base = _chart("hover").encode(x=place["x"])
    shown = base.mark_rule(color=palette.text, strokeWidth=1).encode(
        opacity=alt.when(near).then(alt.value(0.8)).otherwise(alt.value(0))
    )
    owner = base.mark_rule(strokeWidth=24, opacity=0).encode(tooltip=tooltip).add_params(near)
    return [shown, owner]


def config(palette: Palette) -> dict[str, Any]:
    """One theme for every chart; explicit, because defaults are too faint and exports know no theme."""
    text = {"labelColor": palette.text, "titleColor": palette.text}
    return {
        "background": "transparent",
        "font": FONT,
        "view": {"stroke": None},
        "axis": {
            **text,
            "labelFontSize": 14,
            "titleFontSize": 14,
            "titleFontWeight": 600,
            "gridColor": palette.grid,
            "domainColor": palette.text,
            "tickColor": palette.text,
            "titlePadding": 8,
            "labelOverlap": "greedy",
        },
    }
