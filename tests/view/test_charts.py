import json

import pandas as pd
import pytest

from lab.view import charts, frames
from lab.view.axes import bytes_axis, tokens_axis
from lab.view.frames import Extras, Mark
from lab.view.palette import DARK, LIGHT

HEIGHT_PX = 400
NOTHING = Extras()
X = tokens_axis("context T (tokens)", room=0.2)
Y = bytes_axis("bytes", [2**20, 2**40], binary=True)
CURVES = {"naive": [(128, 2.0**21), (131072, 2.0**39)], "fused": [(128, 2.0**20), (131072, 2.0**30)]}


def series(theme=LIGHT) -> list[charts.Series]:
    return [charts.role_series(key, key, key, theme) for key in ("naive", "fused")]


def figure(marks=(), extras=NOTHING, theme=LIGHT) -> charts.Figure:
    data = frames.bundle(
        CURVES,
        marks,
        series(theme),
        extras,
        x=X,
        y=Y,
        height_px=HEIGHT_PX,
        at=str,
        value=lambda v: f"{v:.0f} B",
    )
    return charts.curves(
        data, series(theme), x=X, y=Y, palette=theme, description="peaks against context", height_px=HEIGHT_PX
    )


def layers(spec: dict, mark: str) -> list[dict]:
    return [layer for layer in spec["layer"] if layer["mark"]["type"] == mark]


MARKS = (
    Mark("naive", "measured", 512, 2.0**24, 2.0**23, 2.0**25),
    Mark("naive", "recorded", 1024, 2.0**25, 2.0**25, 2.0**25),
    Mark("naive", "pending", 2048, 2.0**27, 2.0**27, 2.0**27),
    Mark("naive", "measured", 8192, 2.0**28, 2.0**28, 2.0**28, noisy=True),
    Mark("fused", "refused", 4096, 2.0**30, 2.0**30, 2.0**30),
)


def test_the_spec_is_the_same_whatever_the_data() -> None:
    full = figure(MARKS, Extras(limits_x=[(1024, "limit")], limits_y=[(2**33, "card")], marker_x=512))
    assert json.dumps(figure().spec) == json.dumps(full.spec)
    for name, table in figure().data.items():
        assert list(table.columns) == list(full.data[name].columns)
        assert list(table.dtypes) == list(full.data[name].dtypes)


def test_domains_are_explicit_in_every_positioned_layer() -> None:
    for layer in figure().spec["layer"]:
        for channel in ("x", "y"):
            placed = layer["encoding"].get(channel)
            if placed and "field" in placed:
                assert placed["scale"]["domain"] == [X.low, X.high] if channel == "x" else [Y.low, Y.high]


def test_lines_carry_colour_and_dash_of_their_role() -> None:
    line = next(layer for layer in layers(figure().spec, "line") if "strokeDash" in layer["encoding"])
    assert line["encoding"]["color"]["scale"]["range"] == [LIGHT.roles["naive"], LIGHT.roles["fused"]]
    assert line["encoding"]["strokeDash"]["scale"]["range"] == [[2, 3], [1, 0]]
    assert line["encoding"]["color"]["legend"] is None


def test_each_kind_of_point_has_its_own_look_and_refused_ones_are_hollow() -> None:
    points = {
        layer["mark"]["description"]: layer
        for layer in layers(figure().spec, "point")
        if "shape" in layer["encoding"]
    }
    assert set(points) == {
        f"{kind} point" for kind in ("measured", "noisy", "recorded", "pending", "refused")
    }
    assert points["refused point"]["encoding"]["fill"] == {"value": LIGHT.background}
    assert points["refused point"]["mark"]["filled"] is False
    assert points["recorded point"]["mark"]["opacity"] < points["measured point"]["mark"]["opacity"]
    for kind in ("measured", "recorded"):
        assert points[f"{kind} point"]["encoding"]["shape"]["scale"]["range"] == ["triangle-up", "circle"]


def test_spread_is_a_bar_from_quartile_to_quartile() -> None:
    bar = next(layer for layer in layers(figure().spec, "rule") if layer["data"]["name"] == "points")
    assert (bar["encoding"]["y"]["field"], bar["encoding"]["y2"]["field"]) == ("low", "high")


def test_the_last_layer_alone_owns_the_pointer_and_the_tooltip() -> None:
    spec = figure().spec
    last = spec["layer"][-1]
    assert last["mark"]["opacity"] == 0
    assert [field["title"] for field in last["encoding"]["tooltip"]] == [
        "context T (tokens)",
        "naive",
        "fused",
    ]
    assert [layer for layer in spec["layer"] if "tooltip" in layer["encoding"]] == [last]
    (near,) = spec["params"]
    assert near["select"]["nearest"] is True
    assert near["select"]["encodings"] == ["x"]
    assert (near["select"]["on"], near["select"]["clear"]) == ("pointermove", "pointerout")


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_text_and_rules_have_explicit_colours(theme) -> None:
    spec = figure(theme=theme).spec
    assert spec["config"]["axis"]["labelColor"] == theme.text
    for layer in spec["layer"]:
        if layer["mark"]["type"] in ("rule", "text", "line"):
            coloured = "color" in layer["mark"] or "color" in layer["encoding"]
            assert coloured or layer["mark"].get("opacity") == 0


def test_a_point_outside_the_axes_is_left_out() -> None:
    marks = [
        *MARKS,
        Mark("naive", "measured", 64, 2.0**24, 2.0**24, 2.0**24),
        Mark("naive", "measured", 512, 1, 1, 1),
    ]
    assert len(figure(marks).data["points"]) == len(MARKS)


def test_direct_labels_stand_at_line_ends_without_overlapping() -> None:
    close = {"naive": [(128, 2.0**21), (131072, 2.0**39)], "fused": [(128, 2.0**20), (131072, 2.0**38.9)]}
    labels = frames.labels_frame(close, series(), X, Y, HEIGHT_PX)
    assert list(labels["x"]) == [131072, 131072]
    apart = abs(Y.position(labels["y"][0]) - Y.position(labels["y"][1])) * HEIGHT_PX
    assert apart == pytest.approx(charts.LABEL_HEIGHT_PX, abs=0.1)
    assert labels["y"][0] > labels["y"][1]


def test_labels_that_do_not_overlap_are_not_moved() -> None:
    assert frames.spread_apart([0.9, 0.1, 0.5], 0.1) == [0.9, 0.1, 0.5]
    crowded = frames.spread_apart([0.5, 0.5, 0.5], 0.1)
    assert sorted(crowded) == pytest.approx([0.4, 0.5, 0.6], abs=1e-6)


def test_the_tooltip_says_line_and_points_at_every_context() -> None:
    table = figure(MARKS).data["hover"].set_index("x")
    assert table.loc[128, "naive"] == f"{2**21} B"
    assert table.loc[512, "naive"] == f"here {2**24} B"
    assert table.loc[4096, "fused"] == f"refused here {2**30} B"
    assert table.loc[512, "fused"] == "–"


def test_a_slope_triangle_doubles_x_and_raises_y_by_its_power() -> None:
    triangles, words = frames.slope_frames([(1024, 100.0, 2, "T ×2 → ×4")])
    assert list(triangles["x"]) == [1024, 2048, 2048, 1024]
    assert list(triangles["y"]) == [100, 100, 400, 100]
    assert list(words["label"]) == ["T ×2 → ×4"]


def test_data_travel_beside_the_spec_under_fixed_names() -> None:
    shown = figure(MARKS).vega_lite()
    used = {layer["data"]["name"] for layer in shown["layer"]}
    assert used == set(shown["datasets"])
    assert all(isinstance(table, pd.DataFrame) for table in shown["datasets"].values())
    assert "datasets" not in figure().spec
