"""Before a job is started: its memory by the closed form, its time by the last run, and what will be refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from lab import runs
from lab.cost.calls import AttentionCall
from lab.cost.prediction import predict_attention
from lab.cost.traffic import peak_extra_bytes
from lab.measure import estimate as module
from lab.measure import host, protocol
from lab.measure.durations import (
    BUDGET_S,
    CALLS_BEFORE_ROUNDS,
    CALLS_FOR_MEMORY,
    CELL_S,
    FEWEST_ROUNDS,
    FIRST_GUESS,
    FROM_ANOTHER,
    FROM_CALIBRATION,
    FROM_LAST_RUN,
    POINTS_PER_SHAPE,
    START_S,
    _rounds_within,
)
from lab.measure.estimate import CALIBRATION_S, estimate
from lab.measure.need import WARM_HEAP_FACTOR, input_bytes
from lab.measure.plan import processes_of
from lab.measure.protocol import Protocol
from lab.runs import JobSpec, Point, Run, Timing
from lab.runs.calibrations import calibrations_of
from lab.runs.suites import members

GIB = 2**30


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    monkeypatch.setattr(module, "machine", lambda: {"device_kind": "cpu", "default_dtype": "fp32"})
    monkeypatch.setattr(host, "free_memory_bytes", lambda: 10 * GIB)


def spec(experiment: str = "scaling", **changes: object) -> JobSpec:
    return JobSpec(experiment, **{"implementations": ("naive",), "threads": 2, **changes})


def finished(job: JobSpec, call_s: float, took_s: int) -> Run:
    points = [
        Point(
            experiment=job.experiment, implementation="naive", status="ok", batch=1, heads=12, kv_heads=12,
            q_len=length, kv_len=length, head_dim=64, dtype="fp32", causal=True,
            timing=Timing(call_s * (length / job.lengths[0]) ** 2),
        )
        for length in job.lengths
    ]  # fmt: skip
    return Run(
        run_id="a", spec=job, environment={"device_kind": "cpu", "threads": 2}, points=tuple(points),
        status="finished", created_utc="2026-01-01T00:00:00Z", finished_utc=f"2026-01-01T00:{took_s // 60:02}:{took_s % 60:02}Z",
    )  # fmt: skip


def test_the_peak_is_the_closed_form_of_the_largest_cell() -> None:
    expected = peak_extra_bytes(
        "naive", batch=1, heads=12, kv_heads=12, q_len=4096, kv_len=4096, head_dim=64, dtype="bf16",
        causal=True, threads=2,
    )  # fmt: skip
    assert estimate(spec(dtype="bf16")).peak_bytes == expected


def test_what_the_workers_guard_refuses_is_refused_here_at_the_same_byte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call = AttentionCall(
        batch=1, heads=12, kv_heads=12, q_len=4096, kv_len=4096, head_dim=64, dtype="fp32", causal=True,
        threads=2,
    )  # fmt: skip
    shape = {
        name: getattr(call, name) for name in ("batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim")
    }
    peak = peak_extra_bytes("naive", **shape, dtype="fp32", causal=True, threads=2)
    for job, factor in ((spec(), WARM_HEAP_FACTOR), (spec("memory"), 1), (spec(warm_heap=False), 1)):
        need = input_bytes(call) + factor * peak
        job = replace(job, dtype="fp32")
        monkeypatch.setattr(module.allocator, "usable_bytes", lambda free, need=need: need)
        assert estimate(job).refused_lengths == ()
        monkeypatch.setattr(module.allocator, "usable_bytes", lambda free, need=need: need - 1)
        assert estimate(job).refused_lengths == (4096,)


def test_without_any_run_the_time_is_a_first_guess_that_grows_with_the_work() -> None:
    short, long = estimate(spec(lengths=(512,))), estimate(spec(lengths=(2048,)))
    assert short.basis == long.basis == FIRST_GUESS
    assert long.seconds > short.seconds > 0


def test_the_same_job_is_expected_to_take_as_long_as_last_time() -> None:
    job = spec(dtype="fp32")
    for took_s in (20, 40):
        expected = estimate(job, finished(job, 0.01, took_s))
        assert expected.basis == FROM_LAST_RUN
        assert expected.seconds == pytest.approx(took_s)


def test_longer_contexts_are_scaled_by_their_work() -> None:
    job = spec(dtype="fp32", lengths=(2048,))
    last = replace(finished(job, 0.3, 30), status="cancelled")
    longer = estimate(replace(job, lengths=(4096,)), last)
    calls = job.rounds + CALLS_BEFORE_ROUNDS + CALLS_FOR_MEMORY
    more = (4096 * 4097) / (2048 * 2049)  # causal pairs
    assert longer.seconds - estimate(job, last).seconds == pytest.approx(0.3 * (more - 1) * calls)


def test_no_more_rounds_are_expected_than_the_protocols_budget_allows() -> None:
    assert (Protocol().budget_s, protocol.FEWEST_ROUNDS) == (BUDGET_S, FEWEST_ROUNDS)
    assert [_rounds_within(9, seconds) for seconds in (0.1, 5.0, 29.0, 59.0, 61.0)] == [9, 7, 3, 2, 1]


def test_a_disturbed_run_of_short_calls_makes_no_job_of_hours() -> None:
    loud = finished(spec("decode", dtype="fp32", lengths=(128,)), 5e-3, 40)
    loud = replace(loud, points=tuple(replace(point, q_len=1, status="noisy") for point in loud.points))
    runs.save(loud)
    job = spec(dtype="fp32", lengths=(512, 4096))
    assert estimate(job).basis == FIRST_GUESS  # one new token at a time says nothing of a prompt
    assert estimate(job, loud).seconds < 10 * estimate(job).seconds


def test_the_last_run_of_another_experiment_is_better_than_a_guess() -> None:
    runs.save(finished(spec("selftest"), 0.01, 20))
    assert estimate(spec("decode")).basis == FROM_ANOTHER


def test_a_run_that_did_not_finish_gives_its_calls_but_not_its_length() -> None:
    job = spec(dtype="fp32")
    last = replace(finished(job, 0.01, 59), status="cancelled")
    assert estimate(job, last).seconds < 30


def test_kernels_without_a_closed_form_and_unknown_memory_are_no_obstacle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host, "free_memory_bytes", lambda: None)
    expected = estimate(spec(implementations=("sdpa", "efficient", "cudnn"), lengths=(65_536,)))
    assert expected.free_bytes is None
    assert expected.refused_lengths == ()


def test_a_card_is_asked_for_its_own_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    card = {"device_kind": "cuda", "default_dtype": "fp16", "free_bytes": 8 * GIB}
    monkeypatch.setattr(module, "machine", lambda: card)
    expected = estimate(spec(lengths=(512, 65_536)))
    assert expected.free_bytes == 8 * GIB
    assert expected.refused_lengths == (65_536,)


def calibrated(threads: int = 2) -> Run:
    import sys

    sys.path.insert(0, str(Path(__file__).parents[1] / "cost"))
    from calibrations import cpu

    return Run(
        run_id="2026-01-02T000000-calibrate-abcdef", spec=spec("calibrate", dtype="fp32"),
        environment={"device_kind": "cpu", "threads": threads}, points=(), status="finished",
        ceilings={"calibrations": {"fp32": cpu().to_dict()}},
        created_utc="2026-01-02T00:00:00Z", finished_utc="2026-01-02T00:00:40Z",
    )  # fmt: skip


def test_calls_take_what_a_calibration_of_this_type_and_thread_count_predicts() -> None:
    job = spec(dtype="fp32", lengths=(4096,), implementations=("naive_inplace",))
    runs.save(calibrated(threads=7))
    assert estimate(job).basis == FIRST_GUESS
    runs.save(calibrated())
    expected = estimate(job)
    assert expected.basis == FROM_CALIBRATION
    calibration = calibrations_of(calibrated())["fp32"]
    call_s = predict_attention(
        "naive_inplace", calibration, batch=1, heads=12, kv_heads=12, q_len=4096, kv_len=4096, head_dim=64,
        causal=True,
    ).seconds  # fmt: skip
    calls = CALLS_BEFORE_ROUNDS + job.rounds + CALLS_FOR_MEMORY
    assert expected.seconds == pytest.approx(2 * START_S + 2 * CELL_S + calls * call_s)
    assert estimate(replace(job, dtype="bf16")).basis != FROM_CALIBRATION


def test_a_calibration_takes_as_long_as_the_last_one() -> None:
    job = spec("calibrate", dtype="fp32")
    first = estimate(job)
    assert (first.seconds, first.peak_bytes) == (START_S + CALIBRATION_S, 0)
    assert estimate(replace(job, dtype="bf16")).seconds == START_S + 2 * CALIBRATION_S
    runs.save(calibrated())
    assert estimate(job).seconds == 40


def test_experiments_of_many_variants_take_longer_than_one_of_the_same_shapes() -> None:
    shapes = {"lengths": (512,), "implementations": ()}
    few, many = estimate(spec("scaling", **shapes)), estimate(spec("accuracy", **shapes))
    points = POINTS_PER_SHAPE["accuracy"] / 3  # naive, math, flash
    assert many.seconds - 2 * START_S == pytest.approx(points * (few.seconds - 2 * START_S))


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_suite_takes_what_its_experiments_take_in_shared_processes(repeats: int) -> None:
    suite = spec("all", dtype="fp32", repeats=repeats)
    whole = estimate(suite)
    each = [estimate(member) for member in members(suite)]
    starts = sum(START_S * len(processes_of(member)) for member in members(suite))
    assert whole.seconds == pytest.approx(sum(one.seconds for one in each) - starts + (repeats + 1) * START_S)


def test_repeated_processes_take_their_time_each() -> None:
    once, thrice = (estimate(spec("scaling", dtype="fp32", repeats=repeats)).seconds for repeats in (1, 3))
    assert 2 * once < thrice < 3 * once  # memory is counted once


def test_a_suite_that_was_run_before_takes_as_long_again() -> None:
    quick = spec("all", dtype="fp32", quick=True)
    last = finished(quick, 0.01, 105)
    expected = estimate(quick, last)
    assert (expected.seconds, expected.basis) == (105, FROM_LAST_RUN)
    longer = estimate(
        spec("all", dtype="fp32"), last
    )  # other sizes: added up, and from what is known of them
    assert longer.seconds != 105
    assert longer.basis != FIRST_GUESS
