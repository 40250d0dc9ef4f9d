"""Calibrations kept in runs, and predictions of recorded points."""

from dataclasses import replace

import pytest

from lab.cost.prediction import predict_attention
from lab.runs import JobSpec, Point, new_run
from lab.runs.calibrations import Noise, calibrations_of, newest_calibration, noise_of, predict_point
from tests.cost.calibrations import cpu, promoting

KEY = "cpu: test processor"
POINT = Point(
    experiment="scaling",
    implementation="naive",
    status="ok",
    batch=1,
    heads=12,
    kv_heads=12,
    q_len=256,
    kv_len=256,
    head_dim=64,
    dtype="fp32",
    causal=True,
)


def run_with(*calibrations):
    run = new_run(JobSpec("scaling"))
    environment = {"device_kind": "cpu", "device_name": "test processor"}
    recorded = {found.dtype: found.to_dict() for found in calibrations}
    return replace(run, environment=environment, ceilings={"calibrations": recorded})


def test_a_run_gives_back_its_calibrations() -> None:
    assert calibrations_of(run_with(promoting(), cpu())) == {"bf16": promoting(), "fp32": cpu()}
    assert calibrations_of(replace(run_with(), ceilings=None)) == {}


def test_the_newest_of_the_device_dtype_and_threads_is_found() -> None:
    older, newer = cpu(source="older"), cpu(source="newer")
    runs = [run_with(), run_with(newer), run_with(older)]
    assert newest_calibration(runs, KEY, "fp32") == newer
    assert newest_calibration(runs, KEY, "fp32", threads=2) == newer
    assert newest_calibration(runs, KEY, "fp32", threads=1) is None
    assert newest_calibration(runs, KEY, "bf16") is None
    assert newest_calibration(runs, "cpu: another", "fp32") is None


def test_a_quiet_calibration_goes_before_a_newer_noisy_one() -> None:
    older, newer = cpu(source="older"), cpu(source="newer")
    loud, quiet = run_with(newer), run_with(older)
    loud = replace(loud, ceilings={**loud.ceilings, "micro_benchmarks": {"timed": 76, "never_quiet": 30}})
    assert newest_calibration([loud, quiet], KEY, "fp32") == older
    assert newest_calibration([loud], KEY, "fp32") == newer
    noise = noise_of(loud)
    assert noise is not None
    assert noise.sentence.startswith("This calibration is noisy: 30 of 76 micro-benchmarks")
    assert not Noise(76, 7).noisy
    assert noise_of(quiet) is None
    bad = {"timed": "76", "never_quiet": 1}
    assert noise_of(replace(quiet, ceilings={"micro_benchmarks": bad})) is None


def test_damaged_calibrations_are_passed_over() -> None:
    damaged = replace(run_with(), ceilings={"calibrations": {"fp32": {"device": "x"}}})
    assert newest_calibration([damaged, run_with(cpu())], KEY, "fp32") == cpu()
    with pytest.raises(ValueError, match="calibrations must be an object"):
        calibrations_of(replace(run_with(), ceilings={"calibrations": [1]}))


@pytest.mark.parametrize(
    ("implementation", "kernel", "name"),
    [
        ("naive", None, "naive"),
        ("flash", None, "flash"),
        ("sdpa", "_scaled_dot_product_flash_attention_for_cpu", "flash"),
        ("sdpa", "_scaled_dot_product_attention_math", "math"),
    ],
)
def test_points_are_predicted_as_what_ran(implementation: str, kernel: str | None, name: str) -> None:
    shape = {"batch": 1, "heads": 12, "kv_heads": 12, "q_len": 256, "kv_len": 256, "head_dim": 64}
    point = replace(POINT, implementation=implementation, kernel=kernel)
    assert predict_point(point, cpu()) == predict_attention(name, cpu(), **shape, causal=True)


def test_points_without_a_model_have_no_prediction() -> None:
    assert predict_point(replace(POINT, implementation="cudnn"), cpu()) is None
    assert predict_point(replace(POINT, implementation="sdpa"), cpu()) is None
    assert predict_point(replace(POINT, implementation="efficient"), cpu()) is None  # not on a CPU
    assert predict_point(replace(POINT, dtype="bf16"), cpu()) is None
