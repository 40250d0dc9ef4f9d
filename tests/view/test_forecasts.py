"""Lines of this machine: a calibration's prediction where one holds, else a bound, else nothing."""

from dataclasses import replace

import pytest

from lab import runs
from lab.cost import kv_bytes
from lab.cost.predict import Ceilings, attention_bound
from lab.cost.prediction import predict_attention
from lab.cost.rates import Curve
from lab.view import calibrations, here
from lab.view.forecasts import BOUND, PREDICTION, Forecast
from tests.view.pages import line, open_page, words
from tests.view.points_of import run as run_of

SHAPE = {"batch": 1, "heads": 12, "kv_heads": 12, "q_len": 512, "kv_len": 512, "head_dim": 64}
LIMITS = Ceilings("a CPU", "probe", 1e11, 2e10)


def calibrated(threads: int, *, never_quiet: int = 0, **rates: object) -> str:
    """Keep a run that calibrated this machine, with the rates of the chapter's card; gives the run's id."""
    chapter = calibrations.of_chapter("fp16")
    assert chapter is not None
    decode = {"flash": chapter.decode["efficient"]}  # the kernel that a CPU has
    own = replace(
        chapter, dtype="bf16", device_kind="cpu", threads=threads, wide=None, decode=decode, **rates
    )
    environment = {"device_kind": "cpu", "device_name": "a CPU", "threads": threads}
    counts = {"timed": 10, "never_quiet": never_quiet}
    kept = run_of(
        experiment="calibrate", environment=environment, status="finished",
        ceilings={"calibrations": {"bf16": own.to_dict()}, "micro_benchmarks": counts},
    )  # fmt: skip
    runs.save(kept)
    return kept.run_id


def test_without_a_calibration_it_is_a_bound_and_without_ceilings_nothing() -> None:
    forecast = Forecast("cpu", "bf16", LIMITS, 2)
    bound = attention_bound("naive", LIMITS, dtype="bf16", device="cpu", causal=True, **SHAPE).seconds
    assert (forecast.kind, forecast.seconds(fused=False, causal=True, **SHAPE)) == (BOUND, bound)
    assert "bounds" in forecast.badges[0]
    nothing = Forecast("cpu", "bf16", None, 2)
    assert nothing.seconds(fused=True, causal=True, **SHAPE) is None
    assert nothing.badges == []


def test_a_calibration_predicts_for_its_own_threads_alone() -> None:
    calibrated(threads=2)
    forecast = Forecast("cpu", "bf16", LIMITS, 2)
    assert forecast.kind == PREDICTION
    assert forecast.calibration is not None
    expected = predict_attention("naive", forecast.calibration, causal=True, **SHAPE).seconds
    assert forecast.seconds(fused=False, causal=True, **SHAPE) == expected
    assert Forecast("cpu", "bf16", LIMITS, 3).kind == BOUND
    assert Forecast("cpu", "fp32", LIMITS, 2).kind == BOUND


def test_the_run_shown_is_the_one_that_lines_come_from_and_the_warning_is_its_own() -> None:
    noisy = calibrated(threads=2, never_quiet=9)
    shown = calibrations.calibrated_run("cpu", "bf16", 2)
    assert shown is not None
    assert shown.run_id == noisy
    assert "9 of 10 micro-benchmarks" in (calibrations.noise(shown) or "")
    quiet = calibrated(threads=2)
    calibrated(threads=2, never_quiet=9)
    calibrated(threads=3)
    shown = calibrations.calibrated_run("cpu", "bf16", 2)
    assert shown is not None
    assert shown.run_id == quiet
    assert calibrations.noise(shown) is None
    assert calibrations.calibrated_run("cpu", "fp32", 2) is None


def test_both_decode_pages_predict_the_same_time_of_a_step() -> None:
    calibrated(threads=here.threads())
    state = {"model": "llama-3-8b", "context": 8192, "dtype": "bf16", "device": "cpu"}
    times = line(open_page("kv_cache", kv_cache_shown="here", **state), "batch_16")
    rates = line(open_page("batch_and_bandwidth", batch_and_bandwidth_shown="here", **state), "chosen")
    cached = kv_bytes(16, 1, 8, 8192, 128, 2)
    assert times[8192] == pytest.approx(cached / rates[16])


def test_what_a_calibration_did_not_measure_is_said_beside_its_terms() -> None:
    passes = Curve(
        ((1.0, 1e9),), "elements", "elements/s", "of an older lab, which knew nothing of keys from memory"
    )
    calibrated(threads=here.threads(), elements={"softmax": passes})
    at = open_page("kv_cache", model="llama-3-8b", dtype="bf16", device="cpu")
    assert "This machine: what one query reads was calibrated in a warm cache alone" in words(at)
