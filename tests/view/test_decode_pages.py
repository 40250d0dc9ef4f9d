"""Batch and bandwidth: rates, steps and split caches, against lab.cost and the recorded run."""

import pytest

from lab import runs
from lab.cost import catalog, kv_bytes
from lab.cost.budget import budget
from lab.cost.chapter_card import SHEET_ID
from lab.cost.chapter_score import decode_cells
from lab.cost.predict import ARITHMETIC
from lab.cost.shapes import Workload
from lab.view import (
    calibrations,
    scenario,
    splitting,
    step_bars,
)
from lab.view.decode_device import recorded_device
from lab.view.format import scaled
from lab.view.frames import Mark
from tests.view.pages import chart, line, open_page

CHAPTER = runs.reference_runs()[0]
GPT2 = catalog.model("gpt2")


def _scene() -> scenario.Scenario:
    return scenario.Scenario(GPT2, 1024, 1, "fp16", "auto", CHAPTER, True)


def decode_points() -> list[runs.Point]:
    return [point for point in CHAPTER.points if point.experiment == "decode"]


def test_bandwidth_points_are_cache_over_recorded_time() -> None:
    at = open_page("batch_and_bandwidth")
    expected = {
        (point.batch, kv_bytes(point.batch, 1, 12, point.kv_len, 64, 2) / point.timing.median_s)
        for point in decode_points()
        if point.timing
    }
    assert {(row["x"], row["y"]) for row in chart(at)[1]["points"]} == expected
    one, many = (kv_bytes(b, 1, 12, 1024, 64, 2) / seconds for b, seconds in ((1, 64.7e-6), (16, 205e-6)))
    heading = at.main.get("subheader")[0].value
    assert scaled(one, "B/s") in heading
    assert scaled(many, "B/s") in heading
    assert scaled(278e9, "B/s") in heading


def test_bandwidth_lines_are_the_predictor_on_the_chapters_card() -> None:
    at = open_page("batch_and_bandwidth")
    cells = {
        cell.label: cell for cell in decode_cells(calibrations.chapter_figures(), catalog.card(SHEET_ID))
    }
    drawn = line(at, "chosen")
    predicted = {round(kv_bytes(int(b), 1, 12, 1024, 64, 2) / rate, 12) for b, rate in drawn.items()}
    of_cells = {
        round(cell.predicted, 12) for label, cell in cells.items() if "1024" in label.replace(",", "")
    }
    assert of_cells
    assert of_cells <= predicted


def test_a_steps_parts_are_its_traffic_and_its_products() -> None:
    limits = calibrations.ceilings_of(calibrations.of_chapter("fp16"))
    one = step_bars.step(GPT2, 1, 1024, "fp16", limits)
    assert one.cache.terms[0].bytes_moved == kv_bytes(1, 12, 12, 1024, 64, 2)
    assert one.seconds == pytest.approx(
        (one.weights.terms[0].bytes_moved + one.cache.terms[0].bytes_moved) / 278e9
    )
    flops = one.weights.terms[0].flops + one.cache.terms[0].flops
    assert flops == budget(GPT2, Workload(1, 1024, 1, "fp16", True)).matmul_flops
    assert step_bars.step(GPT2, 1024, 1024, "fp16", limits).weights.limited_by == ARITHMETIC


def test_splitting_is_called_a_hypothesis_until_it_was_measured() -> None:
    at = open_page("batch_and_bandwidth", batch_and_bandwidth_shown="split", context=16384)
    calibration = calibrations.of_chapter("fp16")
    assert calibration is not None
    assert "hypothesis" in at.main.get("subheader")[0].value
    drawn = line(at, "reference_1")
    assert drawn[1] == pytest.approx(1007e-6)
    assert drawn[8] < drawn[1] / 4
    assert chart(at)[1]["points"] == []


@pytest.mark.parametrize(
    ("whole_s", "low_s", "high_s", "said"),
    [
        (2e-3, 1.99e-3, 2.01e-3, "helps on this machine"),
        (0.5e-3, 0.49e-3, 0.51e-3, "does not help on this machine"),
        (1.1e-3, 0.9e-3, 1.3e-3, "changes nothing that the spread would tell"),
    ],
)
def test_what_a_split_brought_is_said_only_where_the_spread_allows(
    whole_s: float, low_s: float, high_s: float, said: str
) -> None:
    parts = [
        Mark("here_1", "measured", 1, whole_s, low_s, high_s),
        Mark("here_1", "measured", 4, 1e-3, 0.99e-3, 1.01e-3),
    ]  # fmt: skip
    assert f"Splitting a lone sequence {said}" in splitting.takeaway(
        _scene(), parts, recorded_device(_scene())
    )
