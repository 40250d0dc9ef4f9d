"""Data frames for the charts: lines, their end labels, measured marks, limits, slope triangles, tooltips.

Every frame has fixed columns with fixed types, empty or not: a chart whose points are still to come has
the same spec as one that is full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from lab.view.axes import Axis
from lab.view.charts import LABEL_HEIGHT_PX, Series

MIDDLE = 0.5
Curve = Sequence[tuple[float, float]]
KINDS = {
    "measured": "here",
    "noisy": "here, noisy",
    "pending": "here, no memory figure yet",
    "recorded": "recorded",
    "refused": "refused here",
}

_COLUMNS: dict[str, dict[str, str]] = {
    "lines": {"series": "str", "x": "float64", "y": "float64"},
    "labels": {"series": "str", "label": "str", "x": "float64", "y": "float64"},
    "points": {
        **dict.fromkeys(("series", "kind"), "str"),
        **dict.fromkeys(("x", "y", "low", "high"), "float64"),
    },
    "limits_x": {"x": "float64", "label": "str", "side": "str"},
    "marker_x": {"x": "float64"},
    "notes": {"x": "float64", "y": "float64", "label": "str"},
    "limits_y": {"y": "float64", "label": "str"},
    "slopes": {"triangle": "str", "corner": "int64", "x": "float64", "y": "float64"},
    "slope_labels": {"x": "float64", "y": "float64", "label": "str"},
}


@dataclass(frozen=True)
class Mark:
    """One measured point of a chart.

    Args:
        series: the key of the line it belongs to.
        kind: "measured" (here), "recorded" (elsewhere) or "refused".
        x: position on the horizontal axis.
        y: position on the vertical axis; of a refused point, what it would have needed.
        low: lower end of the spread; y where there is none.
        high: upper end of the spread.
        predicted: what the point itself carries as its prediction; None where it carries none.
        noisy: whether the machine was busy while its time was taken: drawn hollow and dashed, no ground for a
            verdict.
    """

    series: str
    kind: str
    x: float
    y: float
    low: float
    high: float
    predicted: float | None = None
    noisy: bool = False

    @property
    def look(self) -> str:
        """How the point is drawn: its kind, or "noisy" of a measured one that is."""
        return "noisy" if self.noisy and self.kind == "measured" else self.kind


@dataclass(frozen=True)
class Extras:
    """What a chart holds beside lines and points; everything off the axes is left out.

    Args:
        limits_x: (x, words): a limit of the horizontal quantity, such as a model's context.
        limits_y: (y, words): a limit of the vertical quantity, such as a card's memory.
        marker_x: the scenario's own place.
        notes: (x, y, words): places worth naming, such as a crossover.
        slopes: (x, y, power, words): slope triangles by their lower left corner.
    """

    limits_x: Sequence[tuple[float, str]] = ()
    limits_y: Sequence[tuple[float, str]] = ()
    marker_x: float | None = None
    notes: Sequence[tuple[float, float, str]] = ()
    slopes: Sequence[tuple[float, float, int, str]] = ()


def bundle(
    curves: Mapping[str, Curve],
    marks: Sequence[Mark],
    series: Sequence[Series],
    extras: Extras,
    *,
    x: Axis,
    y: Axis,
    height_px: int,
    at: Callable[[float], str],
    value: Callable[[float], str],
) -> dict[str, pd.DataFrame]:
    """Every frame that `lab.view.charts.curves` draws.

    Args:
        curves: the lines by series key.
        marks: the measured points.
        series: lines and points, in order.
        extras: limits, marker, notes, slopes.
        x: the horizontal axis.
        y: the vertical axis.
        height_px: height of the chart.
        at: writes an x for the tooltip.
        value: writes a y for the tooltip.
    """
    slopes, words = slope_frames(extras.slopes)
    marker = [(extras.marker_x,)] if extras.marker_x is not None and x.holds(extras.marker_x) else []
    notes = [note for note in extras.notes if x.holds(note[0]) and y.holds(note[1])]
    return {
        "lines": lines_frame(curves),
        "labels": labels_frame(curves, series, x, y, height_px),
        "points": points_frame(marks, x, y),
        "limits_x": frame(
            "limits_x", [(*limit, _side(limit[0], x)) for limit in extras.limits_x if x.holds(limit[0])]
        ),
        "limits_y": frame("limits_y", [limit for limit in extras.limits_y if y.holds(limit[0])]),
        "marker_x": frame("marker_x", marker),
        "notes": frame("notes", notes),
        "slopes": slopes,
        "slope_labels": words,
        "hover": hover_frame(curves, marks, series, x, at, value),
    }


def _side(place: float, axis: Axis) -> str:
    """On which side of a rule its words have room."""
    return "left" if axis.position(place) > MIDDLE else "right"


def frame(name: str, rows: Iterable[Sequence[object]]) -> pd.DataFrame:
    """Rows as a frame with the columns and types of its name.

    Args:
        name: a key of `_COLUMNS`.
        rows: values in the order of the columns.
    """
    columns = _COLUMNS[name]
    return pd.DataFrame(list(rows), columns=list(columns)).astype(columns)


def lines_frame(curves: Mapping[str, Curve]) -> pd.DataFrame:
    """The lines by series key."""
    return frame("lines", ((key, x, y) for key, curve in curves.items() for x, y in curve))


def labels_frame(
    curves: Mapping[str, Curve], series: Sequence[Series], x: Axis, y: Axis, height_px: int
) -> pd.DataFrame:
    """A label at the last drawable point of each line, moved apart where two would overlap.

    Args:
        curves: the lines by series key.
        series: their labels.
        x: the horizontal axis.
        y: the vertical axis.
        height_px: height of the chart.
    """
    ends = []
    for item in series:
        drawable = [point for point in curves.get(item.key, ()) if x.holds(point[0]) and y.holds(point[1])]
        if drawable:
            ends.append((item, *drawable[-1]))
    places = spread_apart([y.position(end[2]) for end in ends], LABEL_HEIGHT_PX / height_px)
    rows = (
        (item.key, item.end or item.label, at, y.value(place))
        for (item, at, _), place in zip(ends, places, strict=True)
    )
    return frame("labels", rows)


def spread_apart(places: Sequence[float], gap: float) -> list[float]:
    """Move places between 0 and 1 apart until any two differ by `gap`, keeping their order.

    Args:
        places: where the labels belong.
        gap: the least distance.
    """
    order = sorted(range(len(places)), key=lambda index: places[index])
    moved = [places[index] for index in order]
    for _ in range(200):
        for first in range(len(moved) - 1):
            short = gap - (moved[first + 1] - moved[first])
            if short > 1e-9:
                moved[first] -= short / 2
                moved[first + 1] += short / 2
    result = [0.0] * len(places)
    for index, place in zip(order, moved, strict=True):
        result[index] = place
    return result


def points_frame(marks: Iterable[Mark], x: Axis, y: Axis) -> pd.DataFrame:
    """The marks that the axes can show."""
    shown = (mark for mark in marks if x.holds(mark.x) and y.holds(mark.y))
    return frame("points", ((m.series, m.look, m.x, m.y, m.low, m.high) for m in shown))


def slope_frames(
    slopes: Iterable[tuple[float, float, int, str]],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Slope triangles and the sentences beside them.

    Args:
        slopes: (x, y, power, label): the lower left corner, the exponent, the words.
    """
    corners, words = [], []
    for index, (x, y, power, label) in enumerate(slopes):
        top = y * 2.0**power
        path = ((x, y), (2 * x, y), (2 * x, top), (x, y))
        corners += [(str(index), corner, *at) for corner, at in enumerate(path)]
        words.append((2 * x, (y * top) ** 0.5, label))
    return frame("slopes", corners), frame("slope_labels", words)


def hover_frame(
    curves: Mapping[str, Curve],
    marks: Iterable[Mark],
    series: Sequence[Series],
    x: Axis,
    at: Callable[[float], str],
    value: Callable[[float], str],
) -> pd.DataFrame:
    """One row per x with what every line and point says there, in words.

    Args:
        curves: the lines by series key.
        marks: the points.
        series: the tooltip's rows, in order.
        x: the horizontal axis; only what it holds has a row.
        at: writes an x.
        value: writes a y.
    """
    said: dict[float, dict[str, list[str]]] = {}
    for key, curve in curves.items():
        for place, height in curve:
            said.setdefault(place, {}).setdefault(key, []).append(value(height))
    for mark in marks:
        text = f"{KINDS[mark.look]} {value(mark.y)}"
        said.setdefault(mark.x, {}).setdefault(mark.series, []).append(text)
    rows = [
        (place, at(place), *(" · ".join(said[place].get(item.key, ["–"])) for item in series))
        for place in sorted(said)
        if x.holds(place)
    ]
    columns = {"x": "float64", "at": "str"} | {item.key: "str" for item in series}
    return pd.DataFrame(rows, columns=list(columns)).astype(columns)
