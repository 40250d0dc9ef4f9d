"""What `show` computes from a run: the rates of a calibration with their confidence, and fitted exponents."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab import runs
from lab.cli.app import app
from lab.cost.confidence import left_out_cells
from lab.cost.score import score
from lab.runs import JobSpec, Run
from lab.runs.readings.confidence import confidence_words
from tests.cost.test_confidence import calibrated
from tests.runs.test_comparison import timed

BENT = calibrated(lambda n: 2e6 if n == 200 else 1e6)
"""A calibration whose middle length is twice as fast as its neighbours: left out, it is missed."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "140")


def show(run: Run, *options: str) -> str:
    runs.save(run.ended("finished"))
    result = CliRunner().invoke(app, ["show", run.run_id, *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def calibration_run(**changes: object) -> Run:
    found = {"calibrations": {BENT.dtype: BENT.to_dict()}}
    return replace(runs.new_run(JobSpec("calibrate")), **{"ceilings": found, **changes})


def scaling_run() -> Run:
    run = runs.new_run(JobSpec("scaling"))
    for length in (512, 1024, 2048, 4096):
        point = timed([1e-3 * (length / 512) ** 2] * 9, q_len=length, kv_len=length)
        run = run.with_point(point)
    return run


def test_a_calibration_prints_its_rates_with_their_units_and_sources() -> None:
    output = " ".join(show(calibration_run()).split())
    for name, value, unit, source in BENT.constants():
        assert f"{name} {value}{'' if unit == '1' else f' {unit}'} {source}" in output


def test_a_calibration_prints_its_confidence_mean_and_worst() -> None:
    expected = score(left_out_cells(BENT))
    assert abs(expected.worst.error) > 0.05
    output = " ".join(show(calibration_run()).split())
    assert f"is off by {expected.mean_absolute_error:.1%} on average" in output
    assert f"by {expected.worst.error:+.1%} at worst" in output
    assert expected.worst.label in output


def test_a_run_that_holds_points_too_names_its_rates_and_prints_them_on_demand() -> None:
    run = calibration_run(points=scaling_run().points)
    brief, whole = show(run), show(run, "--all")
    assert f"{len(list(BENT.constants()))} figures; show --all prints them." in brief
    assert "Confidence: attention" in brief
    assert "matmul qk/" not in brief
    assert "matmul qk/" in whole


def test_rates_of_the_accumulator_are_printed_once() -> None:
    narrow = replace(BENT, dtype="bf16", wide=BENT)
    both = {"calibrations": {"bf16": narrow.to_dict(), BENT.dtype: BENT.to_dict()}}
    assert f"{BENT.dtype}: matmul" not in show(calibration_run(ceilings=both))
    alone = {"calibrations": {"bf16": narrow.to_dict()}}
    assert f"{BENT.dtype}: matmul" in show(calibration_run(ceilings=alone))


def test_confidence_is_in_the_json_and_the_json_stays_a_run_file() -> None:
    text = show(calibration_run(), "--json")
    expected = score(left_out_cells(BENT))
    found = json.loads(text)["tables"]["confidence"][BENT.dtype]
    assert found["mean_absolute_error"] == expected.mean_absolute_error
    assert found["worst_error"] == expected.worst.error
    assert runs.from_text(text).ceilings == json.loads(text)["ceilings"]


def test_fitted_exponents_are_in_the_json() -> None:
    (fit,) = json.loads(show(scaling_run(), "--json"))["tables"]["fits"]
    assert fit["exponent"] == pytest.approx(2.0)
    assert (fit["implementation"], fit["dtype"], fit["causal"]) == ("flash", "fp32", True)
    assert (fit["shortest"], fit["longest"], fit["points"]) == (512, 4096, 4)


def test_a_damaged_calibration_is_one_sentence_and_the_json_is_given_without_it() -> None:
    run = calibration_run(ceilings={"calibrations": {"fp32": {"device": "a CPU"}}})
    assert "Warning: a calibration must state" in show(run)
    assert json.loads(show(run, "--json"))["tables"] == {}


def test_a_calibration_of_two_lengths_says_that_its_confidence_is_not_known() -> None:
    curve = BENT.elements["softmax"]
    short = replace(BENT, elements={"softmax": replace(curve, points=curve.points[:2])})
    assert "not known" in confidence_words(short)


def test_a_narrow_calibration_without_the_accumulators_rates_says_so_too() -> None:
    narrow = replace(BENT, dtype="bf16", wide=None)
    assert "not known" in show(calibration_run(ceilings={"calibrations": {"bf16": narrow.to_dict()}}))
