"""Calibrations: figures with sources, curves over sizes, JSON, data sheets."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cost.calibration import Calibration, DecodeRate
from lab.cost.datasheet import from_sheet
from lab.cost.rates import Constant, Curve
from tests.cost.calibrations import constant, cpu, flat, plain, promoting

rates = st.floats(1e-3, 1e15)
CURVE = Curve(((100.0, 1e9), (10_000.0, 4e9)), "bytes", "bytes/s", "test")
CARD = SimpleNamespace(
    name="Card",
    memory_bandwidth_bytes_per_s=336e9,
    dense_flops={"fp32": 7.2e12, "fp16": None, "bf16": 57e12},
    sm_count=34,
    sm_count_means="streaming multiprocessors",
    compute_capability="7.5",
    sources=["its sheet"],
)


def test_a_curve_runs_through_its_points_and_straight_on_log_axes() -> None:
    assert CURVE.at(100) == pytest.approx(1e9)
    assert CURVE.at(10_000) == pytest.approx(4e9)
    assert CURVE.at(1000) == pytest.approx(2e9)


def test_outside_its_points_a_curve_keeps_the_nearest_rate() -> None:
    assert CURVE.at(1) == 1e9
    assert CURVE.at(1e12) == 4e9


@given(st.lists(rates, min_size=1, max_size=6), st.floats(1, 1e9))
def test_a_curve_never_leaves_the_range_of_its_rates(values: list[float], size: float) -> None:
    curve = Curve(tuple((10.0**i, rate) for i, rate in enumerate(values)), "bytes", "bytes/s", "test")
    assert min(values) * (1 - 1e-9) <= curve.at(size) <= max(values) * (1 + 1e-9)


def test_a_curve_without_a_point_interpolates_over_the_gap() -> None:
    curve = Curve(((1.0, 1.0), (10.0, 5.0), (100.0, 1.0)), "n", "1/s", "test")
    assert curve.without(10).at(10) == pytest.approx(1.0)
    assert curve.without(7) == curve
    assert flat(3.0).without(1) == flat(3.0)


@pytest.mark.parametrize("calibration", [plain(), cpu(), promoting()], ids=["plain", "cpu", "promoting"])
def test_a_calibration_survives_json(calibration: Calibration) -> None:
    assert Calibration.from_json(calibration.to_json()) == calibration


def test_every_listed_constant_has_a_unit_and_a_source() -> None:
    rows = list(promoting().constants())
    assert all(name and value and unit and source for name, value, unit, source in rows)
    names = [name for name, *_ in rows]
    assert {"bandwidth", "matmul", "fused flash/64x512", "decode flash item", "fp32: matmul"} <= set(names)


def test_in_dtype_gives_the_accumulators_calibration_or_refuses() -> None:
    both = promoting()
    assert both.in_dtype("bf16") is both
    assert both.in_dtype("fp32") is both.wide
    with pytest.raises(ValueError, match="no calibration of test processor for fp64, only for bf16"):
        both.in_dtype("fp64")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the calibration is not JSON"),
        ("[]", "schema must be 1 in a calibration"),
        ('{"schema": 99}', "schema must be 1 in a calibration, got 99"),
        ('{"schema": 1, "device": "x"}', "a calibration must state bandwidth, device_kind, dtype"),
    ],
)
def test_damaged_files_are_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Calibration.from_json(text)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("matmul", "value"), -1, "value must be a finite number above 0, got -1"),
        (("matmul", "source"), " ", "source must say where the figure comes from"),
        (("bandwidth", "points"), [[1]], "points must be a list of"),
        (("bandwidth", "points"), [], "points must hold at least one"),
        (("elements",), 3, "elements must be an object, got 3"),
        (("decode", "flash"), {}, "decode must state item"),
        (("dtype",), "fp8", "dtype must be one of"),
        (("device_kind",), "tpu", "device_kind must be cpu or cuda, got 'tpu'"),
        (("threads",), None, "threads must be at least 1 on a CPU, got None"),
    ],
)
def test_damaged_fields_are_refused_in_words(path: tuple[str, ...], value, message: str) -> None:
    values = json.loads(cpu().to_json())
    target = values
    for name in path[:-1]:
        target = target[name]
    target[path[-1]] = value
    with pytest.raises(ValueError, match=message):
        Calibration.from_json(json.dumps(values))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constant(float("nan"), "s", "test"), "value must be a finite number above 0, got nan"),
        (lambda: Curve(((2.0, 1.0), (1.0, 1.0)), "n", "1/s", "test"), "points must have rising sizes"),
        (lambda: cpu("bf16", wide=plain()), "wide must be a calibration of the same device"),
    ],
)
def test_bad_figures_are_refused_in_words(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_sheet_gives_ceilings_and_nothing_that_was_not_stated() -> None:
    calibration = from_sheet(CARD, "fp32")
    assert calibration.matmul.value == 7.2e12
    assert calibration.bandwidth.at(1) == calibration.bandwidth.at(1e12) == 336e9
    assert calibration.slots.value == 34
    assert not calibration.fused
    assert not calibration.decode
    assert calibration.overhead is None
    assert all(source == "data sheet of Card" for *_, source in calibration.constants())


def test_a_sheet_carries_the_fp32_ceilings_for_kernels_that_promote() -> None:
    assert from_sheet(CARD, "bf16").wide.matmul.value == 7.2e12


def test_a_rate_the_sheet_does_not_state_is_asked_for_not_guessed() -> None:
    with pytest.raises(ValueError, match="states no fp16 matmul rate; give one as matmul with its source"):
        from_sheet(CARD, "fp16")
    given_rate = Constant(28.9e12, "FLOP/s", "the architecture's whitepaper")
    assert from_sheet(CARD, "fp16", matmul=given_rate).matmul == given_rate
    without = SimpleNamespace(**{**vars(CARD), "memory_bandwidth_bytes_per_s": None})
    with pytest.raises(ValueError, match="states no memory bandwidth"):
        from_sheet(without, "fp32")
    processor = SimpleNamespace(**{**vars(CARD), "sm_count_means": "cores"})
    with pytest.raises(ValueError, match="Card is a CPU, whose passes no sheet prices: calibrate it instead"):
        from_sheet(processor, "fp32")


def test_a_decode_rate_needs_only_what_one_item_streams() -> None:
    rate = DecodeRate(constant(1e9, "bytes/s"))
    assert DecodeRate.from_dict(rate.to_dict()) == rate
    assert flat(1.0).at(5) == 1.0
