"""Predicted decode steps: streams by work items, splits, groups, keys from a cache and from memory."""

from dataclasses import replace

import pytest

from lab.cost.calibration import Calibration, DecodeRate
from lab.cost.prediction import predict_attention
from lab.cost.prediction_fused import PARALLELISM
from lab.cost.prediction_terms import (
    BANDWIDTH,
    COLD,
    LAUNCH,
)
from tests.cost.calibrations import constant, cpu, flat, plain

READ = {"qk1/64": flat(4e9, "FLOP/s"), "pv1/64": flat(4e9, "FLOP/s")}
FROM_MEMORY = {f"qk1{COLD}/64": flat(1e9, "FLOP/s"), f"pv1{COLD}/64": flat(1e9, "FLOP/s")}
FIRST = {f"promote{COLD}": flat(1e8), f"mul{COLD}": flat(2e8)}
SHAPE = {"batch": 1, "heads": 12, "kv_heads": 12, "q_len": 512, "kv_len": 512, "head_dim": 64, "causal": True}


def shape(**changes) -> dict:
    return {**SHAPE, **changes}


def test_decode_is_the_longest_of_launch_bandwidth_and_work_items() -> None:
    rate = DecodeRate(constant(1e9, "bytes/s"), fraction=constant(0.5), launch=constant(1e-4, "s"))
    calibration = plain("fp16", decode={"flash": rate})

    def term(**changes):
        return predict_attention("flash", calibration, **shape(q_len=1, **changes)).terms[0]

    item_bytes = 2 * 512 * 64 * 2
    assert term().limited_by == PARALLELISM
    assert term().seconds == pytest.approx(item_bytes / 1e9)
    assert term(kv_len=16).limited_by == LAUNCH
    assert term(kv_len=16).seconds == 1e-4
    assert term(batch=64).limited_by == BANDWIDTH
    assert term(batch=64).seconds == pytest.approx(64 * 12 * item_bytes / 5e10)


def test_items_beyond_the_slots_run_in_rounds() -> None:
    one, two = (
        predict_attention("flash", cpu(), **shape(q_len=1, heads=n, kv_heads=n)).seconds for n in (2, 4)
    )
    assert two == pytest.approx(2 * one)


def test_grouped_heads_read_a_shared_cache_from_memory_once() -> None:
    calibration = plain("fp16", decode={"flash": DecodeRate(constant(1e12, "bytes/s"))})
    all_heads, grouped = (
        predict_attention("flash", calibration, **shape(q_len=1, kv_heads=n)).seconds for n in (12, 3)
    )
    assert all_heads == pytest.approx(4 * grouped)


def decode_calibration(dtype: str, **changes) -> Calibration:
    made = cpu(dtype, overhead=None, **changes)
    rates = made.matmuls | READ | FROM_MEMORY
    return replace(made, matmuls=rates, elements=made.elements | {"promote": flat(8e9)} | FIRST)


def one_query(implementation: str, calibration: Calibration, **changes) -> dict[str, float]:
    prediction = predict_attention(implementation, calibration, **shape(q_len=1, **changes))
    return {term.name: term.seconds for term in prediction.terms}


def test_keys_from_memory_are_read_at_the_cold_rate_by_whoever_touches_them_first() -> None:
    flops, keys = 2 * 12 * 512 * 64, 12 * 512 * 64
    own = decode_calibration("fp32")
    assert one_query("naive", own)["QKᵀ"] == pytest.approx(flops / 4e9)
    naive = one_query("naive", own, cold=True)
    assert (naive["QKᵀ"], naive["PV"]) == pytest.approx((flops / 1e9, flops / 1e9))
    math_fp32 = one_query("math", own, cold=True)  # it scales K first, and then finds its own copy
    assert math_fp32["scale k"] == pytest.approx(keys / 2e8)
    assert (math_fp32["QKᵀ"], math_fp32["PV"]) == pytest.approx((flops / 4e9, flops / 1e9))
    narrow = replace(decode_calibration("bf16"), wide=own)
    math_bf16 = one_query("math", narrow, cold=True)
    assert math_bf16["promote q, k, v"] == pytest.approx((12 * 64 + 2 * keys) / 1e8)
    assert (math_bf16["QKᵀ"], math_bf16["PV"]) == pytest.approx((flops / 4e9, flops / 4e9))
    prompt = [predict_attention("naive", own, **SHAPE, cold=cold).seconds for cold in (False, True)]
    assert prompt[0] == prompt[1]


def test_a_cold_stream_has_its_own_rate_and_without_one_the_warm_rate_is_named() -> None:
    rates = {
        "flash": DecodeRate(constant(1e9, "bytes/s")),
        f"flash{COLD}": DecodeRate(constant(2e8, "bytes/s")),
    }
    warm, cold = (
        predict_attention("flash", decode_calibration("fp32", decode=rates), **shape(q_len=1, cold=cold))
        for cold in (False, True)
    )
    assert cold.seconds == pytest.approx(5 * warm.seconds)
    older = predict_attention("flash", cpu(), **shape(q_len=1), cold=True)
    assert older.seconds == predict_attention("flash", cpu(), **shape(q_len=1)).seconds
    assert any("calibrate again" in note for note in older.notes)


@pytest.mark.parametrize("cold", [False, True])
def test_naive_heads_of_a_group_read_their_keys_once(cold: bool) -> None:
    own = decode_calibration("fp32")
    every, grouped = (one_query("naive", own, kv_heads=kv, cold=cold) for kv in (12, 3))
    assert every["QKᵀ"] == pytest.approx(4 * grouped["QKᵀ"])
    busy = replace(own, matmuls=own.matmuls | {"qk/64": flat(2e9, "FLOP/s")})
    flops = 2 * 12 * 512 * 64
    reading = flops / 12 / (1e9 if cold else 4e9)
    assert one_query("naive", busy, kv_heads=1, cold=cold)["QKᵀ"] == pytest.approx(max(reading, flops / 2e9))
    repeated = one_query("math", own, kv_heads=3)
    assert repeated["QKᵀ"] == one_query("math", own)["QKᵀ"]  # the math kernel repeats K and V


def test_splitting_a_lone_sequence_helps_until_the_bandwidth_and_costs_a_merge() -> None:
    rate = DecodeRate(constant(1e9, "bytes/s"), launch=constant(1e-6, "s"))
    calibration = plain("fp16", decode={"flash": rate})
    lone = shape(q_len=1, kv_len=16384)
    whole, half, many = (predict_attention("flash", calibration, **lone, splits=n) for n in (1, 2, 64))
    assert [term.name for term in half.terms] == ["stream the cache", "merge the splits"]
    assert half.terms[0].seconds == pytest.approx(whole.seconds / 2)
    assert many.terms[0].limited_by == BANDWIDTH


def test_decode_without_a_streaming_rate_is_a_bound_and_says_so() -> None:
    prediction = predict_attention("flash", plain("fp16"), **shape(q_len=1))
    assert prediction.seconds == pytest.approx(2 * 12 * 512 * 64 * 2 / 1e11)
    assert "a lower bound" in prediction.notes[0]
