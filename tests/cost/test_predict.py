"""Rooflines: which ceiling wins, how terms add up, and what is refused."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cost.predict import Ceilings, attention_bound, bound_seconds, operations_bound
from lab.cost.traffic import Operation, operations

SHEET = Ceilings("a card", "made up for the test", flops_per_s=1e12, bytes_per_s=1e11)
LAUNCHING = Ceilings("a card", "made up for the test", flops_per_s=1e12, bytes_per_s=1e11, launch_s=5e-6)
GPT2 = {"batch": 1, "heads": 12, "kv_heads": 12, "head_dim": 64, "dtype": "fp16", "device": "cuda"}
CHAPTER = json.loads((Path(__file__).parents[1] / "facts" / "chapter_measurements.json").read_text("utf-8"))
CHAPTER_CARD = Ceilings(
    "the chapter's card",
    "chapter_measurements.json: best fp16 matmul rate, copy bandwidth",
    CHAPTER["device"]["best_fp16_matmul_flops_per_s"],
    CHAPTER["device"]["copy_bandwidth_bytes_per_s"],
)


def test_each_ceiling_can_set_the_bound() -> None:
    assert SHEET.ridge_flops_per_byte == 10
    assert bound_seconds(10**12, 10**9, SHEET).limited_by == "arithmetic"
    assert bound_seconds(10**12, 10**9, SHEET).seconds == 1.0
    assert bound_seconds(10**9, 10**11, SHEET).limited_by == "bandwidth"
    assert bound_seconds(10**9, 10**11, SHEET).seconds == 1.0
    tiny = bound_seconds(1, 1, LAUNCHING)
    assert (tiny.seconds, tiny.limited_by) == (5e-6, "launch")


@given(st.lists(st.tuples(st.integers(0, 10**15), st.integers(0, 10**15)), min_size=1, max_size=6))
def test_operations_one_after_the_other_add_up(counts: list[tuple[int, int]]) -> None:
    passes = [Operation("step", flops, moved, 0) for flops, moved in counts]
    total = operations_bound(passes, SHEET)
    assert total.seconds == pytest.approx(sum(max(flops / 1e12, moved / 1e11) for flops, moved in counts))
    together = bound_seconds(sum(f for f, _ in counts), sum(m for _, m in counts), SHEET)
    assert total.seconds >= together.seconds * (1 - 1e-12)  # overlapping everything is the looser bound


def test_prefill_is_bandwidth_bound_when_scores_are_written_and_arithmetic_bound_when_fused() -> None:
    shape = {**GPT2, "q_len": 8192, "kv_len": 8192, "causal": True}
    assert attention_bound("naive", CHAPTER_CARD, **shape).limited_by == "bandwidth"
    assert attention_bound("efficient", CHAPTER_CARD, **shape).limited_by == "arithmetic"


def test_a_decode_step_is_bandwidth_bound() -> None:
    shape = {**GPT2, "q_len": 1, "kv_len": 16384, "causal": True}
    bound = attention_bound("efficient", SHEET, **shape)
    assert bound.limited_by == "bandwidth"
    assert bound.seconds == pytest.approx((2 * 16384 + 2) * 12 * 64 * 2 / 1e11)


def test_every_bound_opens_into_its_operations() -> None:
    shape = {**GPT2, "q_len": 1024, "kv_len": 1024, "causal": True}
    bound = attention_bound("math", SHEET, **shape)
    assert [term.name for term in bound.terms] == [step.name for step in operations("math", **shape)]
    assert bound.seconds == pytest.approx(sum(term.seconds for term in bound.terms))


def test_no_measured_time_of_the_chapter_is_below_the_bound_of_its_card() -> None:
    for row in CHAPTER["time_ms"]:
        shape = {**GPT2, "q_len": row["T"], "kv_len": row["T"], "causal": True}
        for implementation in ("naive", "efficient"):
            bound = attention_bound(implementation, CHAPTER_CARD, **shape)
            assert bound.seconds * 1e3 <= row[f"fp16_{implementation}"]


@pytest.mark.parametrize("name", ["flops_per_s", "bytes_per_s"])
@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), None, "fast", True])
def test_ceilings_refuse_what_is_no_rate(name: str, value: object) -> None:
    rates: dict = {"flops_per_s": 1.0, "bytes_per_s": 1.0, name: value}
    with pytest.raises(ValueError, match=f"{name} must be"):
        Ceilings("x", "y", **rates)


@pytest.mark.parametrize("value", [-1, float("nan"), "many"])
def test_counts_that_are_none_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="flops must be"):
        bound_seconds(value, 1, SHEET)
    with pytest.raises(ValueError, match="bytes_moved must be"):
        bound_seconds(1, value, SHEET)
    with pytest.raises(ValueError, match="launch_s must be"):
        Ceilings("x", "y", 1.0, 1.0, launch_s=value)


def test_a_bound_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one operation"):
        operations_bound([], SHEET)
