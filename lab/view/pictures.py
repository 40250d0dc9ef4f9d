"""A chart as a file that stands alone: SVG and PNG on a light page with its caption, CSV with its data.

Nothing here knows the browser or the server: vl-convert draws the same Vega-Lite spec with the fonts it
brings along. It is loaded on the first picture asked for, because it holds a JavaScript engine.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from lab.view.bars import faded
from lab.view.charts import Figure
from lab.view.frames import KINDS
from lab.view.palette import DARK, LIGHT, Palette

WIDTH_PX = 900
PNG_SCALE = 2.0
"""Pixels of the picture for one of the page's: sharp on a projector and in print."""
# The first is the one that vl-convert brings; the others are for whoever opens the SVG.
_FONT = '"Liberation Sans", Arial, Helvetica, sans-serif'
_HEADING_PX, _CAPTION_PX = 18, 12
# Characters of a line, from the mean width of a character: 0.5 and 0.53 of the font's size.
_HEADING_CHARACTERS = int(WIDTH_PX / (0.53 * _HEADING_PX))
_CAPTION_CHARACTERS = int(WIDTH_PX / (0.5 * _CAPTION_PX))
_UNITS = {"FLOPs": "flops", "FLOP/s": "flops_per_s", "B/s": "bytes_per_s"}


@dataclass(frozen=True)
class Caption:
    """What a chart needs beside itself once it has left its page.

    Args:
        heading: what the chart shows, in one sentence.
        scenario: model, context, batch and number type, in words.
        source: where its lines and points come from, in words.
        link: an address that opens the page with this scenario.
    """

    heading: str
    scenario: str
    source: str
    link: str

    @property
    def lines(self) -> list[str]:
        """Scenario, source and link, wrapped to the picture's width."""
        said = (self.scenario, self.source, self.link)
        return [line for part in said if part for line in textwrap.wrap(part, _CAPTION_CHARACTERS)]


def plain(text: str) -> str:
    """A heading without the mark-up of a page: "$T^{1.96}$" becomes "T^1.96".

    Args:
        text: Markdown with LaTeX of single powers.
    """
    return re.sub(r"[$*`]", "", re.sub(r"\^\{([^{}]*)\}", r"^\1", text))


def light(spec: Any) -> Any:
    """A spec with every colour of the dark theme replaced by the light theme's.

    Args:
        spec: a Vega-Lite spec, or a part of one.
    """
    if isinstance(spec, dict):
        return {key: light(value) for key, value in spec.items()}
    if isinstance(spec, list):
        return [light(value) for value in spec]
    return _LIGHT_OF.get(spec, spec) if isinstance(spec, str) else spec


def _colours(palette: Palette) -> list[str]:
    """The colours of a theme in an order that both share, then each thinned with the page behind it."""
    plain = [*palette.roles.values(), *palette.ramp, palette.text, palette.grid]
    return [*plain, palette.background, *(faded(colour, palette) for colour in plain)]


_LIGHT_OF = dict(zip(_colours(DARK), _colours(LIGHT), strict=True))


def standing_alone(figure: Figure, caption: Caption) -> dict[str, Any]:
    """The spec with its data, a width of its own, light colours, and the caption as its title.

    Args:
        figure: as drawn on the page, in either theme.
        caption: written above the chart.
    """
    spec = light(figure.spec)
    heading = textwrap.wrap(plain(caption.heading), _HEADING_CHARACTERS)
    above = round(1.3 * (_HEADING_PX * len(heading) + _CAPTION_PX * len(caption.lines))) + 24
    return spec | {
        "background": LIGHT.background,
        "width": WIDTH_PX,
        "height": spec["height"] + above,
        "padding": 12,
        "config": spec["config"] | {"font": _FONT, "background": LIGHT.background},
        "title": {
            "text": heading, "subtitle": caption.lines, "anchor": "start", "frame": "bounds", "offset": 12,
            "color": LIGHT.text, "subtitleColor": LIGHT.text, "fontSize": _HEADING_PX, "font": _FONT,
            "subtitleFont": _FONT, "subtitleFontSize": _CAPTION_PX, "subtitlePadding": 6,
            "lineHeight": round(1.3 * _HEADING_PX), "subtitleLineHeight": round(1.3 * _CAPTION_PX),
        },
        "datasets": {name: table.to_dict("records") for name, table in figure.data.items()},
    }  # fmt: skip


def svg(figure: Figure, caption: Caption) -> bytes:
    """The chart as SVG.

    Args:
        figure: as drawn on the page.
        caption: written above the chart.
    """
    import vl_convert

    return str(vl_convert.vegalite_to_svg(standing_alone(figure, caption))).encode()


def png(figure: Figure, caption: Caption) -> bytes:
    """The chart as PNG, drawn from its SVG.

    Args:
        figure: as drawn on the page.
        caption: written above the chart.
    """
    import vl_convert

    return bytes(vl_convert.svg_to_png(svg(figure, caption).decode(), scale=PNG_SCALE))


def csv(figure: Figure, caption: Caption) -> bytes:
    """The numbers of the chart as CSV in UTF-8, one row a mark, the scenario and the link in every row.

    Args:
        figure: as drawn on the page.
        caption: its scenario and link.
    """
    found = table(figure)
    said = {"scenario": caption.scenario, "source": caption.source, "link": caption.link}
    return found.assign(**said).to_csv(index=False).encode()


def table(figure: Figure) -> pd.DataFrame:
    """The lines, points, bars and limits of a chart, with the unit in the name of every quantity.

    Args:
        figure: as drawn on the page.
    """
    data = figure.data
    if "lines" in data:
        found = _curves(data, figure.names)
    elif "segments" in data:
        found = _bars(data)
    else:
        found = pd.concat(data.values(), ignore_index=True)
    across = _column(figure, "x")
    names = {"x": across, "y": _column(figure, "y"), "start": f"start_{across}", "end": f"end_{across}"}
    names |= {end: f"{end}_{names['y']}" for end in ("low", "high")}
    return found.rename(columns=names if figure.axes else {})


def _curves(data: Mapping[str, pd.DataFrame], names: Mapping[str, str]) -> pd.DataFrame:
    points = data["points"]
    kinds = points["kind"].map(
        lambda kind: "measured " + KINDS[kind] if kind in ("measured", "noisy") else KINDS[kind]
    )
    parts = [
        data["lines"].assign(kind="predicted"),
        points.assign(kind=kinds),
        *(data[name].assign(kind=kind) for name, kind in _MARKS.items()),
    ]
    found = pd.concat(parts, ignore_index=True)
    found["series"] = found["series"].map(names)
    return found[["kind", "series", "label", "x", "y", "low", "high"]]


_MARKS = {"notes": "note", "limits_x": "limit", "limits_y": "limit"}


def _bars(data: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    parts = [
        data["segments"].assign(kind="bar"),
        data["points"].assign(kind="measured here"),
        data["limits"].assign(kind="limit").rename(columns={"text": "what"}),
    ]
    found = pd.concat(parts, ignore_index=True)
    return found[["kind", "row", "part", "what", "start", "end", "x"]]


def _column(figure: Figure, field: str) -> str:
    """The name of a column: the axis title in small letters, and its unit."""
    if field not in figure.axes:
        return field
    axis = figure.axes[field]
    title = re.sub(r"[^a-z0-9]+", "_", axis.title.lower().replace("'", "")).strip("_")
    unit = _UNITS.get(axis.unit, axis.unit)
    return title if not unit or title.endswith(unit) else f"{title}_{unit}"
