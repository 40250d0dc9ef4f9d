"""Printed numbers: the digits decide the precision, and rounding is carried through."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cost.claims.facts import cell
from lab.cost.claims.printed import Interval, corners, exactly, read_figure, unit_scale


@pytest.mark.parametrize(
    ("printed", "half_width"),
    [("2.05", "0.005"), ("2.0", "0.05"), ("2", "0.5"), ("5e2", "50"), ("5.5e2", "5"), ("970", "0.5")],
)
def test_half_a_unit_of_the_last_digit(printed: str, half_width: str) -> None:
    assert read_figure(printed).half_width == Fraction(half_width)


def test_an_approximate_figure_is_a_whole_unit_wide() -> None:
    assert read_figure("14", about=True).interval == Interval(Fraction(14), Fraction(13), Fraction(15))


def test_a_stated_half_width_replaces_the_digits() -> None:
    assert read_figure("0.75", half_width="0.05").half_width == Fraction(1, 20)


def test_a_tie_may_have_been_rounded_either_way() -> None:
    tie = Fraction(9, 4)
    for printed in ("2.2", "2.3"):
        interval = read_figure(printed).interval
        assert interval.low <= tie <= interval.high


@pytest.mark.parametrize("printed", ["two", "", "nan", "inf"])
def test_what_is_no_number_is_refused(printed: str) -> None:
    with pytest.raises(ValueError, match="printed must be a"):
        read_figure(printed)


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="got 'parsec'"):
        unit_scale("parsec")


def test_binary_and_decimal_units_differ() -> None:
    assert unit_scale("GiB") == 2**30
    assert unit_scale("GB") == 10**9


def test_a_ratio_of_printed_numbers_is_an_interval() -> None:
    found = corners(lambda a, b: a / b, read_figure("1.0").interval, read_figure("0.14").interval)
    assert found == Interval(
        Fraction(50, 7), Fraction("0.95") / Fraction("0.145"), Fraction("1.05") / Fraction("0.135")
    )


@given(st.fractions(min_value=Fraction(1, 1000), max_value=1000), st.integers(0, 3))
def test_rounding_and_reading_back_never_excludes_the_number(value: Fraction, digits: int) -> None:
    printed = f"{float(value):.{digits}f}"
    interval = read_figure(printed).interval
    slack = Fraction(1, 10**9)
    assert interval.low - slack <= value <= interval.high + slack


def test_an_exact_number_has_no_width() -> None:
    assert exactly(7) == Interval(Fraction(7), Fraction(7), Fraction(7))


def test_a_row_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="where must name one row of time_ms"):
        cell("time_ms", {"T": 3}, "fp16_naive")
