"""A chart whose axes and names were put into a look that was built before is the chart built in one go."""

import json
import re
from dataclasses import replace
from typing import Any

from lab.view import bars, charts
from lab.view.axes import bytes_axis, seconds_axis, tokens_axis
from lab.view.bars import Bars, Part
from lab.view.charts import Series
from lab.view.palette import DARK, LIGHT

SERIES = (Series("naive", "naive attention", "#123456", (4, 2)), Series("fused_1k", "T = 1k", "#654321"))
RENAMED = (replace(SERIES[0], key="other"), replace(SERIES[1], key="fused_2k", label="T = 2k"))
AXES = [
    {"x": tokens_axis("context", room=0.2), "y": bytes_axis("bytes", [1e3, 1e9], binary=True)},
    {"x": tokens_axis("context"), "y": bytes_axis("bytes", [5.0, 1e7], binary=False)},
    {"x": tokens_axis("context", linear_up_to=4096), "y": seconds_axis("time", [0.0, 2e-3], linear=True)},
]


def written(spec: dict[str, Any]) -> str:
    """The spec as text; Altair names the views after their content."""
    return re.sub(r"view_\w+", "view", json.dumps(spec, sort_keys=True))


def test_lines_of_another_axis_name_and_theme_are_those_built_anew() -> None:
    cases = [(LIGHT, SERIES, axes) for axes in AXES]
    for palette, series, axes in [*cases, (LIGHT, RENAMED, AXES[1]), (DARK, SERIES[:1], AXES[0])]:
        drawn = charts.curves({}, series, **axes, palette=palette, description="", height_px=300)
        anew = charts._spec(*axes.values(), series, palette is DARK, 300, ())
        assert written(drawn.spec) == written(anew)


def test_a_chart_does_not_change_when_the_next_is_drawn() -> None:
    first = charts.curves({}, SERIES, **AXES[0], palette=LIGHT, description="")
    before = repr(first.spec)
    charts.curves({}, RENAMED, **AXES[1], palette=LIGHT, description="")
    assert repr(first.spec) == before


def test_bars_of_another_axis_are_those_built_anew() -> None:
    parts = (Part("weights", "#123456"), Part("cache", "#654321"))
    for axes in AXES:
        drawn = bars.draw(
            Bars(("one", "two"), parts, ()), x=axes["y"], palette=LIGHT, description="", height_px=200
        )
        anew = bars._spec(axes["y"], ("one", "two"), parts, False, 200, True)
        assert written(drawn.spec) == written(anew)
