import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.view.format import (
    BINARY_UNITS,
    DECIMAL_UNITS,
    bytes_text,
    digits,
    flops_text,
    other_bytes,
    scaled,
    seconds_text,
    share,
    times,
    tokens_label,
    whole,
)


@pytest.mark.parametrize(
    ("count", "binary", "text"),
    [
        (6 * 2**20, True, "6 MiB"),
        (6 * 2**30, True, "6 GiB"),
        (36 * 2**20, True, "36 MiB"),
        (36 * 2**20, False, "37.7 MB"),
        (248_879_616, False, "249 MB"),
        (2.25 * 2**30, True, "2.25 GiB"),
        (0, True, "0 B"),
        (1023, True, "1,023 B"),
        (999.4, False, "999 B"),
        (1023.9 * 2**20, True, "1 GiB"),
        (3 * 2**80, True, "3,145,728 EiB"),
    ],
)
def test_bytes_are_written_in_the_chosen_unit(count: float, binary: bool, text: str) -> None:
    assert bytes_text(count, binary) == text


def test_the_other_unit_is_the_one_not_chosen() -> None:
    assert other_bytes(2**30, True) == "1.07 GB"
    assert other_bytes(10**9, False) == "954 MiB"


@given(st.floats(1, 1e24), st.booleans())
def test_bytes_can_be_read_back_within_rounding(count: float, binary: bool) -> None:
    value, unit = bytes_text(count, binary).split()
    units, step = (BINARY_UNITS, 1024) if binary else (DECIMAL_UNITS, 1000)
    read = float(value.replace(",", "")) * step ** units.index(unit)
    assert read == pytest.approx(count, rel=6e-3, abs=0.5)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (25.6e-6, "25.6 µs"),
        (0.067, "67 ms"),
        (0.9999, "1 s"),
        (3.14e-9, "3.14 ns"),
        (90, "90 s"),
        (600, "10 min"),
        (36_000, "10 h"),
        (2e-10, "0.2 ns"),
    ],
)
def test_times_are_written_with_a_fitting_unit(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (9.996, "10"),
        (0.000123456, "0.000123"),
        (1234567, "1,234,567"),
        (2.0833, "2.08"),
        (-1.5, "-1.5"),
    ],
)
def test_three_figures_and_no_exponent(value: float, text: str) -> None:
    assert digits(value) == text


def test_counts_carry_si_prefixes() -> None:
    assert flops_text(1.1e12) == "1.1 TFLOPs"
    assert scaled(278e9, "B/s") == "278 GB/s"
    assert scaled(0.5, "FLOPs") == "0.5 FLOPs"


def test_short_names_of_contexts_are_those_of_the_axes() -> None:
    assert [tokens_label(T) for T in (128, 512, 1024, 131072, 1500)] == ["128", "512", "1k", "128k", "1500"]


def test_ratios_and_shares() -> None:
    assert times(11.222) == "11 times"
    assert times(512.3) == "512 times"
    assert share(0.1345) == "13 %"
    assert share(9.7) == "970 %"
    assert whole(1234) == "1,234"
