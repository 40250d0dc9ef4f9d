"""Leave-one-length-out errors of a calibration."""

from dataclasses import replace

import pytest

from lab.cost.confidence import MASK_KINDS, left_out_cells
from lab.cost.rates import Curve
from lab.cost.score import score
from tests.cost.calibrations import cpu, plain

LENGTHS = (100, 200, 400, 800)
HEADS = 4  # 4 heads of 100² scores are as many as a mask of 200²: the two must not be confused
KINDS = ("mul", "mul_", "clone", "masked_fill_", "softmax", "add_", "isneginf", "all", "where", *MASK_KINDS)


def calibrated(rate_of_length) -> object:
    """A calibration whose rates are a function of the length."""

    def curve(unit_elements) -> Curve:
        points = tuple((unit_elements * n**2, rate_of_length(n)) for n in LENGTHS)
        return Curve(points, "elements", "elements/s", "test")

    elements = {kind: curve(1 if kind in MASK_KINDS else HEADS) for kind in KINDS}
    return cpu(matmuls={"qk/64": curve(HEADS), "pv/64": curve(HEADS)}, elements=elements, overhead=None)


def test_rates_that_interpolation_finds_leave_no_error() -> None:
    cells = left_out_cells(calibrated(lambda n: 1e6 * n))  # straight on log axes
    assert len(cells) == 2 * 3 * 2  # inner lengths, implementations, masks
    assert score(cells).mean_absolute_error == pytest.approx(0, abs=1e-9)


def test_a_bend_at_one_length_is_its_error() -> None:
    cells = left_out_cells(calibrated(lambda n: 2e6 if n == 200 else 1e6))
    errors = {cell.label: cell.error for cell in cells if cell.family == "left out, naive fp32"}
    assert errors["T = 200, causal"] == pytest.approx(1.0)
    assert errors["T = 400, full"] == pytest.approx(2 ** (-1 / 2) - 1)


def test_the_accumulators_calibration_is_thinned_too() -> None:
    bent = calibrated(lambda n: 2e6 if n == 200 else 1e6)
    narrow = replace(bent, dtype="bf16", wide=bent)
    cells = [cell for cell in left_out_cells(narrow) if "math" in cell.family and "200" in cell.label]
    assert all(cell.error > 0.8 for cell in cells)


def test_what_was_not_calibrated_by_size_has_no_cells() -> None:
    assert left_out_cells(plain()) == []
    assert left_out_cells(cpu()) == []
