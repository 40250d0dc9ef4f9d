"""Experiments over cases: every case ends as a point with its variant, and both parts of a point meet."""

from dataclasses import replace

import pytest
import torch
from measured_shapes import SMALL, events_of, job, points_of
from planted import no_mask

from lab.measure import case, cells
from lab.measure.accuracy import Accuracy
from lab.measure.case import Plan
from lab.measure.device import Device
from lab.measure.experiments import windowed
from lab.measure.experiments.causal import tile_ratio
from lab.measure.experiments.gqa import groupings
from lab.measure.implementations import IMPLEMENTATIONS

ON_CPU = ("causal", "mask", "windowed", "gqa", "split_kv", "accuracy", "kv_int8", "training")


pytestmark = pytest.mark.usefixtures("sooner")


def by_variant(points):
    return {(point.implementation, point.variant): point for point in points}


@pytest.mark.parametrize("name", ON_CPU)
def test_time_and_memory_of_every_case_join_to_an_accepted_point(name: str) -> None:
    opened = job(name, lengths=(64,), **SMALL)
    timed, counted = (points_of(name, part, opened) for part in ("time", "memory"))
    assert len(timed) >= 4 or name == "windowed"
    assert [point.key for point in timed] == [point.key for point in counted]
    assert len({point.key for point in timed}) == len(timed)
    for point, other in zip(timed, counted, strict=True):
        assert point.merge(other).accepted, point


@pytest.mark.parametrize("name", [*ON_CPU, "backends"])
def test_a_plan_tells_as_many_points_as_follow(name: str) -> None:
    part = "memory"
    events = events_of(name, part, job(name, lengths=(64,), implementations=("sdpa",), **SMALL))
    assert events[0]["event"] == "plan"
    assert sum(event["event"] == "point" for event in events) == events[0]["total"]


def test_causal_and_full_are_timed_together_with_what_tiles_predict() -> None:
    points = points_of("causal", "time", job("causal", lengths=(2048,), implementations=("flash",), **SMALL))
    masked, full = sorted(points, key=lambda point: not point.causal)
    # Query blocks of 256 by 512 keys: 256 x 512 x (2 x (1 + 2 + 3 + 4)) of 2048 x 2048 pairs
    assert masked.measures == {"predicted_causal_over_full": 0.625}
    assert full.measures == {}
    assert masked.timing.n == full.timing.n == 3


@pytest.mark.parametrize(("threads", "share"), [(5, 184 / 312), (16, 66 / 96)])
def test_tiles_are_predicted_for_the_threads_of_the_job(threads: int, share: float) -> None:
    opened = replace(job("causal"), threads=threads)
    plan = Plan("flash", opened.call(batch=1, q_len=4096, kv_len=4096))
    assert tile_ratio(opened, plan) == {"predicted_causal_over_full": share}


def test_a_wrong_implementation_is_refused_in_every_case_it_takes_part_in(monkeypatch) -> None:
    wrong = replace(IMPLEMENTATIONS["naive"], function=no_mask)
    monkeypatch.setitem(IMPLEMENTATIONS, "naive", wrong)
    points = points_of(
        "causal", "time", job("causal", lengths=(64,), implementations=("naive", "flash"), **SMALL)
    )
    status = {(point.implementation, point.causal): point for point in points}
    assert status["naive", True].status == "wrong"
    assert status["naive", True].timing is None
    assert {status[key].status for key in (("naive", False), ("flash", True))} <= {"ok", "noisy"}


def test_a_window_that_shows_too_much_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(windowed, "windowed", lambda q, k, v, causal, window: no_mask(q, k, v, causal=causal))
    points = by_variant(points_of("windowed", "time", job("windowed", lengths=(64,), **SMALL)))
    assert points["windowed", "window 16"].status == "wrong"
    assert points["sdpa", "window 16 as a T x T mask"].status in ("ok", "noisy")


def test_what_makes_no_sense_without_a_mask_is_refused_in_words() -> None:
    for name, words in (("windowed", "a sliding window is causal"), ("mask", "is about the causal mask")):
        points = points_of(name, "time", job(name, lengths=(64,), causal=False, **SMALL))
        assert {point.status for point in points} == {"refused"}
        assert all(words in point.reason for point in points)


def test_exercise_3_taken_literally_is_told_to_be_another_function() -> None:
    points = by_variant(points_of("mask", "time", job("mask", lengths=(130,), **SMALL)))
    literal = points["naive", "first row of each block unmasked"]
    assert literal.status in ("ok", "noisy")
    assert literal.measures["error_against_causal"] > 0.1
    assert "another function than causal attention: 3 of 130 rows" in literal.warnings[0]
    assert points["naive", "mask on the diagonal blocks"].status in ("ok", "noisy")


def test_an_explicit_mask_keeps_the_fused_kernel_of_the_cpu() -> None:
    points = by_variant(points_of("mask", "memory", job("mask", lengths=(64,), **SMALL)))
    for kind in ("is_causal", "boolean mask", "float mask"):
        assert "flash_attention_for_cpu" in points["sdpa", kind].kernel
    assert points["sdpa", "boolean mask"].measures == {"mask_bytes": 64 * 64}
    assert points["sdpa", "float mask"].measures == {"mask_bytes": 4 * 64 * 64}


def test_the_cache_shrinks_with_the_kv_heads() -> None:
    points = points_of("gqa", "memory", job("gqa", lengths=(64,), batches=(1,), **SMALL))
    decode = {p.kv_heads: p.measures["cache_bytes"] for p in points if p.variant == "decode"}
    assert decode == {heads: 2 * heads * 64 * 32 * 4 for heads in (4, 2, 1)}
    assert {p.q_len for p in points if p.variant == "decode"} == {1}
    assert {p.q_len for p in points if p.variant == "prefill"} == {64}
    assert groupings(12) == [12, 4, 3, 1]
    assert groupings(1) == [1]


def test_work_items_grow_with_the_parts_and_unequal_parts_are_refused() -> None:
    points = by_variant(points_of("split_kv", "memory", job("split_kv", lengths=(68,), **SMALL)))
    assert points["split_kv", "1 part, matmul"].measures["work_items"] == 4
    assert points["split_kv", "4 parts, fused kernel"].measures["work_items"] == 16
    refused = points["split_kv", "8 parts, matmul"]
    assert refused.status == "refused"
    assert refused.reason == "68 keys cannot be cut into 8 equal parts"


def test_fp32_intermediates_err_less_on_sharp_scores() -> None:
    opened = job("accuracy", lengths=(64,), dtype="bf16", **SMALL)
    points = by_variant(points_of("accuracy", "time", replace(opened, dtype="bf16")))
    error = {
        name: points[name, "sharp scores"].measures["rms_relative_error"] for name in ("naive", "naive_fp32")
    }
    assert error["naive_fp32"] < error["naive"] / 3
    assert points["naive", "sharp scores"].measures["largest_score"] > 40


def test_accuracy_measures_every_dtype_unless_one_is_asked_for() -> None:
    opened = job("accuracy", lengths=(16,), dtype="auto", implementations=("flash",), **SMALL)
    assert {point.dtype for point in points_of("accuracy", "memory", opened)} == {"fp32", "bf16", "fp16"}


def test_quantised_caches_are_right_about_what_they_store_and_err_against_the_original() -> None:
    points = by_variant(points_of("kv_int8", "memory", job("kv_int8", lengths=(64,), **SMALL)))
    plain = points["sdpa", "random"].measures
    four, eight = (points["quantised", f"{kind}, random"].measures for kind in ("q4_0", "q8_0"))
    assert plain["rms_relative_error"] < 1e-6 < eight["rms_relative_error"] < four["rms_relative_error"] / 5
    assert eight["cache_bytes"] / plain["cache_bytes"] == 34 / 32 / 4
    assert four["cache_bytes"] / plain["cache_bytes"] == 18 / 32 / 4
    outliers = points["quantised", "int8, outlier channels"].measures
    assert (
        outliers["rms_relative_error"]
        > 2 * points["quantised", "int8, random"].measures["rms_relative_error"]
    )


def test_a_head_that_is_no_whole_number_of_blocks_is_refused_by_the_types_that_have_blocks() -> None:
    opened = job("kv_int8", lengths=(64,), **SMALL | {"head_dim": 48})
    points = by_variant(points_of("kv_int8", "memory", opened))
    assert (
        points["quantised", "q8_0, random"].reason
        == "q8_0 has blocks of 32 numbers; head_dim 48 is no multiple"
    )
    assert points["quantised", "int8, random"].status == "ok"


def test_training_counts_the_matmuls_of_both_passes() -> None:
    points = by_variant(points_of("training", "memory", job("training", lengths=(64,), **SMALL)))
    for name, factor in (("flash", 3.5), ("naive", 3.0), ("math", 3.0)):
        both, forward = (points[name, what].measures for what in ("forward and backward", "forward"))
        assert both["matmul_flops"] / forward["matmul_flops"] == factor
    assert (
        points["naive", "forward and backward"].peak_extra_bytes > points["naive", "forward"].peak_extra_bytes
    )


def test_training_refuses_lengths_it_cannot_check() -> None:
    points = points_of("training", "time", job("training", lengths=(8192,), **SMALL))
    assert {point.reason for point in points} == {
        "gradients are checked in float64 up to T = 4,096; T = 8,192 is not"
    }


def test_backends_run_or_refuse_in_pytorch_s_words() -> None:
    opened = job("backends", lengths=(64,), implementations=("math", "flash", "efficient", "sdpa"), **SMALL)
    points = by_variant(points_of("backends", "memory", opened))
    assert points["efficient", "causal"].status == "refused"
    assert points["efficient", "causal"].reason.startswith("No viable backend")
    assert points["flash", "head_dim 65"].accepted
    assert points["flash", "fp64"].dtype == "fp64"
    for kind in ("3-D inputs", "K strided in its last dimension"):
        assert points["sdpa", kind].kernel == "_scaled_dot_product_attention_math"
    assert points["sdpa", "one query"].q_len == 1
    assert points["sdpa", "4 query heads a KV head"].kv_heads == 1


def test_a_case_that_runs_out_of_memory_leaves_the_others(monkeypatch) -> None:
    def short(q, k, v, *, causal):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")

    monkeypatch.setitem(IMPLEMENTATIONS, "naive", replace(IMPLEMENTATIONS["naive"], function=short))
    points = points_of("causal", "time", job("causal", lengths=(32,), **SMALL))
    status = {point.implementation: point.status for point in points}
    assert status["naive"] == "out_of_memory"
    assert {status["math"], status["flash"]} <= {"ok", "noisy"}


def test_a_case_that_does_not_fit_is_refused_with_what_it_needs() -> None:
    class Small(Device):
        def free_bytes(self):
            return 2**16

    for name in (*ON_CPU, "model"):
        points = points_of(name, "memory", job(name, lengths=(256,), device=Small(), **SMALL))
        assert {point.status for point in points} == {"refused"}, name
        assert all(point.need_bytes > point.have_bytes for point in points)


def test_the_judgement_of_a_case_is_its_point_s_error() -> None:
    from lab.measure.case import Case, Plan, examine_case

    opened = job("causal", lengths=(16,))
    plan = Plan("sdpa", opened.call(batch=1, q_len=16, kv_len=16), "mine")
    case = Case(
        plan, lambda: torch.ones(2) @ torch.ones(2), lambda output: Accuracy(1.0, 0.5, "all", "too far"), ()
    )
    point = examine_case(opened, case)
    assert (point.status, point.reason, point.variant) == ("wrong", "too far", "mine")
    assert (point.max_abs_error, point.tolerance) == (1.0, 0.5)


@pytest.mark.parametrize("experiment", ["causal", "scaling"])
def test_a_kernel_past_its_limit_is_refused_in_every_kind_of_experiment(
    experiment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch's own dispatch may take the efficient kernel at any length; what was seen to run decides."""
    for module in (case, cells):
        monkeypatch.setattr(
            module, "beyond_limit", lambda backend, call, kind: f"{backend} at {call.kv_len} is wrong"
        )
    told = events_of(experiment, "time", job(experiment, implementations=("sdpa",), lengths=(32,)))
    points = [event["point"] for event in told if event["event"] == "point"]
    assert {point["status"] for point in points} == {"refused"}
    assert all(point["reason"].endswith("at 32 is wrong") for point in points)
