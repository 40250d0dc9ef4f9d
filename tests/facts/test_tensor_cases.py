import json
from collections import Counter
from pathlib import Path

import pytest

from lab.cost import limits
from tests.facts.classes import ERROR, INFERRED, RESTATES, TENSOR_SIZE, TESTS, class_of
from tests.facts.tensor_rows import recompute

ROWS = {row["id"]: row for row in json.loads(Path(__file__).with_name("tensor_size_cases.json").read_text())}
CLASS = class_of(TENSOR_SIZE)
AGREEING = [row for row_id, row in ROWS.items() if CLASS[row_id] != ERROR and row["expected"] is not None]
WRONG = [ROWS[row_id] for row_id in ROWS if CLASS[row_id] == ERROR]


def ids(rows):
    return [row["id"] for row in rows]


def off_by(figure, row):
    return abs(figure / row["expected"] - 1)


def test_every_row_is_classified_once_and_counted(record_facts):
    assert CLASS.keys() == ROWS.keys()
    counts = Counter(CLASS[row_id] for row_id in ROWS)
    record_facts("tensor_size_cases", counts)
    assert counts == {TESTS: 7, INFERRED: 4, RESTATES: 8, ERROR: 2}


def test_rows_called_derived_or_consistent_are_not_counted_as_tests():
    weak = ("derived", "consistent", "observation", "published")
    assert all(CLASS[row["id"]] != TESTS for row in ROWS.values() if row["status"].startswith(weak))
    assert all(CLASS[row["id"]] == INFERRED for row in ROWS.values() if "inferred" in row["input_confidence"])


@pytest.mark.parametrize("row", AGREEING, ids=ids(AGREEING))
def test_row_within_its_own_tolerance(row):
    assert off_by(recompute(row), row) <= row.get("tolerance", 0)


@pytest.mark.parametrize("row", WRONG, ids=ids(WRONG))
def test_published_error_is_disagreed_with_and_corrected(row):
    figure = recompute(row)
    assert off_by(figure, row) > row["tolerance"]
    assert figure == pytest.approx(row["computed"], rel=1e-6)


def test_b06_printed_its_gigabytes_as_gibibytes():
    gigabytes = recompute({**ROWS["B06"], "unit": "GB"})
    assert int(gigabytes) == ROWS["B06"]["expected"]


def test_b26_is_loose_in_every_unit_and_far_from_the_estimate_without_the_vocabulary():
    assert float(recompute({**ROWS["B26"], "unit": "MB"})) == pytest.approx(131.072)


def test_b36_is_an_observation_without_a_figure_to_match():
    assert recompute(ROWS["B36"]) is None
    assert ROWS["B36"]["expected"] is None


SIZED = [row for row in AGREEING if "limit" not in row["kind"]]


@pytest.mark.parametrize("row", SIZED, ids=ids(SIZED))
def test_doubling_any_input_breaks_the_row(row):
    """A tolerance too wide, or an input that changes nothing, would show here."""
    for name, value in row["inputs"].items():
        if value:
            changed = {**row, "inputs": {**row["inputs"], name: 2 * value}}
            assert off_by(recompute(changed), row) > row["tolerance"], name


@pytest.mark.parametrize(
    ("row_id", "name", "value"),
    [
        ("B33", "MASK_OFFSETS", 2**32 - 1),
        ("B33", "MASK_OFFSETS", 65_537**2),
        ("B34", "BIAS_STRIDE", 2**31 + 1),
    ],
)
def test_a_limit_moved_by_one_breaks_its_row(monkeypatch, row_id, name, value):
    monkeypatch.setattr(limits, name, value)
    assert recompute(ROWS[row_id]) != ROWS[row_id]["expected"]


def test_rows_with_a_wide_tolerance_still_tell_fp16_from_fp32():
    row = ROWS["B31"]
    half = recompute({**row, "inputs": {**row["inputs"], "bytes_per_element": 2}})
    assert off_by(half, row) > 8 * row["tolerance"]
