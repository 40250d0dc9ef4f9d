"""Lines of this machine: a calibration's prediction where one holds, else a bound, else nothing."""

from dataclasses import replace

import pytest

from lab import runs
from lab.cost.predict import Ceilings, attention_bound
from lab.cost.prediction import predict_attention
from lab.measure import jobs
from lab.view import calibrations
from lab.view.forecasts import BOUND, PREDICTION, Forecast
from tests.view.points_of import run as run_of

SHAPE = {"batch": 1, "heads": 12, "kv_heads": 12, "q_len": 512, "kv_len": 512, "head_dim": 64}
LIMITS = Ceilings("a CPU", "probe", 1e11, 2e10)


@pytest.fixture(autouse=True)
def _no_child_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "machine", lambda: None)


def calibrated(threads: int) -> None:
    """Keep a run that calibrated this machine, with the rates of the chapter's card, which a test knows."""
    chapter = calibrations.of_chapter("fp16")
    assert chapter is not None
    own = replace(chapter, dtype="bf16", device_kind="cpu", threads=threads, wide=None)
    environment = {"device_kind": "cpu", "device_name": "a CPU", "threads": threads}
    runs.save(
        run_of(
            experiment="calibrate", environment=environment, status="finished",
            ceilings={"calibrations": {"bf16": own.to_dict()}},
        )
    )  # fmt: skip


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
