import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.view.axes import Axis, bytes_axis, counts_axis, seconds_axis, tokens_axis


def test_the_context_axis_runs_from_128_to_128k() -> None:
    axis = tokens_axis("context")
    assert [label for _, label in axis.ticks][:4] == ["128", "256", "512", "1k"]
    assert axis.ticks[-1] == (131072, "128k")
    scale = axis.scale()
    assert (scale["type"], scale["base"], scale["nice"], scale["domain"][1]) == ("log", 2, False, 131072)
    assert 64 < scale["domain"][0] < 128


def test_room_for_labels_widens_the_axis_beyond_its_last_tick() -> None:
    axis = tokens_axis("context", room=0.2)
    assert axis.position(131072) == pytest.approx(0.8)
    assert tokens_axis("context", linear_up_to=4096, room=0.2).position(4096) == pytest.approx(0.8)


def test_a_linear_context_axis_ends_at_the_scenario() -> None:
    axis = tokens_axis("context", linear_up_to=1024)
    assert axis.scale()["type"] == "linear"
    assert [label for _, label in axis.ticks] == ["0", "256", "512", "768", "1k"]


def test_binary_and_decimal_bytes_have_round_ticks() -> None:
    binary = bytes_axis("bytes", [3 * 2**20, 700 * 2**30], binary=True)
    assert all(label.split()[1] in ("MiB", "GiB", "TiB") for _, label in binary.ticks)
    assert all(
        float(label.split()[0]) in (1, 4, 32, 128, 512, 16, 2, 8, 64, 256) for _, label in binary.ticks
    )
    decimal = bytes_axis("bytes", [3e6, 7e11], binary=False)
    assert [label for _, label in decimal.ticks] == [
        "1 MB",
        "10 MB",
        "100 MB",
        "1 GB",
        "10 GB",
        "100 GB",
        "1 TB",
    ]


def test_time_is_on_powers_of_ten() -> None:
    axis = seconds_axis("time", [2e-5, 300])
    assert [label for _, label in axis.ticks] == [
        *("10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s", "1,000 s"),
    ]


def test_linear_axes_start_at_zero_and_hold_the_largest_value() -> None:
    axis = bytes_axis("bytes", [5 * 2**20, 37 * 2**20], binary=True, linear=True)
    assert axis.low == 0
    assert axis.high >= 37 * 2**20
    assert [label for _, label in axis.ticks][:3] == ["0", "10 MiB", "20 MiB"]


def test_every_tick_has_its_label_in_the_expression() -> None:
    expression = counts_axis("batch", (1, 2, 4)).axis()["labelExpr"]
    assert expression == 'datum.value === 1 ? "1" : datum.value === 2 ? "2" : datum.value === 4 ? "4" : \'\''


@given(st.floats(1, 1e15), st.floats(1.0, 1e6), st.booleans(), st.booleans())
def test_any_range_of_bytes_gets_an_axis_that_holds_it(
    low: float, factor: float, binary: bool, linear: bool
) -> None:
    axis = bytes_axis("bytes", [low, low * factor], binary=binary, linear=linear)
    assert axis.holds(low)
    assert axis.holds(low * factor)
    assert 2 <= len(axis.ticks) <= 12


@given(st.floats(0.001, 0.999))
def test_place_and_value_are_inverse(place: float) -> None:
    for axis in (tokens_axis("x"), Axis("y", 0, 50, (), None)):
        assert axis.position(axis.value(place)) == pytest.approx(place)


def test_what_cannot_be_drawn_is_not_held() -> None:
    axis = tokens_axis("x")
    assert not axis.holds(64)
    assert not axis.holds(math.inf)
    assert not axis.holds(math.nan)
    with pytest.raises(ValueError, match="at least one value above zero"):
        bytes_axis("bytes", [0], binary=True)


@pytest.mark.parametrize(("most", "step"), [(16, 2), (2048, 256), (113, 20), (3, 1), (1, 1), (1616, 500)])
def test_linear_counts_step_in_powers_of_two_or_round_numbers(most: int, step: int) -> None:
    positions = [place for place, _ in counts_axis("batch", (), linear_up_to=most).ticks]
    assert positions[:2] == [0, step]
    assert len(positions) <= 9
