"""The roofline, the whole model, and every control of the pages on limits and on this machine."""

import json
import re
from collections.abc import Iterable
from dataclasses import replace

import pytest

from lab import runs
from lab.cost import attention_bound, catalog
from lab.cost.budget import budget
from lab.cost.chapter_card import SHEET_ID, sheet_calibration
from lab.cost.chapter_score import gpt2_cells
from lab.cost.predict import LAUNCH
from lab.cost.prediction_model import predict_gpt2
from lab.cost.shapes import Workload
from lab.runs import Timing
from lab.view import (
    calibrations,
    ceilings,
    modules,
    roofline,
    scenario,
    tensor_sizes,
)
from lab.view.axes import TOKENS
from lab.view.format import bytes_text, seconds_text, share
from tests.view.pages import chart, line, open_page, pairs, sweep, words
from tests.view.points_of import point
from tests.view.points_of import run as run_of

FILES = ("roofline", "whole_model", "batch_and_bandwidth", "my_machine")
OPTIONS = {
    "roofline": {"roofline_device": ("recorded", "here", "h100-sxm"), "roofline_mask": ("causal", "full")},
    "whole_model": {
        "whole_model_shown": ("modules", "lengths"), "whole_model_attention": ("eager", "sdpa"),
        "whole_model_logits": ("all", "last"), "whole_model_axes": ("log", "linear"),
    },
    "batch_and_bandwidth": {
        "batch_and_bandwidth_shown": ("recorded", "here", "split"), "batch_and_bandwidth_axes": ("log", "linear"),
    },
    "my_machine": {"my_machine_quantity": ("time", "peak"), "my_machine_experiment": ("selftest", "decode")},
}  # fmt: skip
CHAPTER = runs.reference_runs()[0]
GPT2 = catalog.model("gpt2")


def test_whole_model_bars_are_predicted_modules_that_add_up() -> None:
    at = open_page("whole_model")
    segments = chart(at)[1]["segments"]
    expected = predict_gpt2(
        GPT2, calibrations.of_chapter("fp32"), batch=1, tokens=1024, attention="eager", logits="all"
    )
    assert sum(row["end"] for row in segments) == pytest.approx(expected.seconds)
    assert segments[0]["row"] == "12 × attention, eager"
    heading = at.main.get("subheader")[0].value
    assert seconds_text(expected.seconds) in heading
    assert seconds_text(71.4e-3) in heading


def test_whole_model_counts_flops_where_no_device_prices_the_modules() -> None:
    found = modules.counted(GPT2, Workload(1, 1024, 1024, "fp16", True), "all")
    assert (
        sum(module.amount for module in found)
        == budget(GPT2, Workload(1, 1024, 1024, "fp16", True)).matmul_flops
    )
    llama = budget(catalog.model("llama-3-8b"), Workload(1, 1024, 1024, "fp16", True))
    at = open_page("whole_model", model="llama-3-8b")
    assert share(llama.lm_head_flops / llama.matmul_flops) in at.main.get("subheader")[0].value


def test_whole_model_draws_the_recorded_passes_over_their_predictions() -> None:
    at = open_page("whole_model", whole_model_shown="lengths")
    rows = CHAPTER.tables["gpt2_fp32_batch1"]
    recorded = {(row["tokens"], row[f"{name}_ms"] / 1e3) for row in rows for name in ("eager", "sdpa")}
    assert {(row["x"], row["y"]) for row in chart(at)[1]["points"]} == recorded
    predicted = {
        cell.predicted for cell in gpt2_cells(calibrations.chapter_figures(), catalog.card(SHEET_ID), GPT2)
    }
    drawn = {y for name in ("eager_card", "sdpa_card") for y in line(at, name).values()}
    assert all(any(value == pytest.approx(y) for y in drawn) for value in predicted)


def whole_passes() -> None:
    """Store what the button of Whole model measures, as if it had been pressed before."""
    shape = {"experiment": "model", "variant": "all logits", "kv_len": 128, "q_len": 128}
    passes = (
        point(**shape, implementation=name, timing=Timing(seconds, n=9), peak_extra_bytes=None)
        for name, seconds in (("eager", 9e-3), ("sdpa", 7e-3))
    )
    environment = {"device_kind": "cpu", "device_name": "a CPU", "threads": 1}
    runs.save(run_of(*passes, experiment="model", environment=environment, status="finished"))


@pytest.mark.parametrize("model", ["llama-3-8b", "gpt2-medium", "gpt2"])
def test_time_by_length_is_no_empty_chart_and_holds_what_was_measured(model: str) -> None:
    state = {"model": model, "whole_model_shown": "lengths", "dtype": "bf16"}
    before = open_page("whole_model", **state)
    assert chart(before)[1]["lines"]
    assert re.search("[0-9] [mµ]?s", before.main.get("subheader")[0].value)
    whole_passes()
    at = open_page("whole_model", **state)
    own = {row["y"] for row in chart(at)[1]["points"] if row["series"].endswith("_here")}
    assert own == {9e-3, 7e-3}
    assert ("Points here: GPT-2 small, batch 1" in words(at)) == (model != "gpt2")
    assert "2 whole passes of GPT-2 small measured on this machine" in words(at)
    assert chart(at)[0] == chart(before)[0]


def test_the_least_time_of_an_untimed_model_is_its_flops_over_the_rate() -> None:
    at = open_page("whole_model", model="llama-3-8b", whole_model_shown="lengths")
    llama, limits = catalog.model("llama-3-8b"), ceilings.reference(CHAPTER, "fp16")
    flops = budget(llama, Workload(1, 4096, 4096, "fp16", True)).matmul_flops
    assert line(at, "pass")[4096] == pytest.approx(flops / limits.flops_per_s)


def test_the_peak_with_all_logits_is_the_same_for_both_kinds_of_attention() -> None:
    said = words(open_page("whole_model"))
    rows = CHAPTER.tables["gpt2_fp32_batch1"]
    assert "the same for eager and SDPA" in said
    assert f"differ by {max(row['max_logit_diff'] for row in rows):.1e} at most" in said


def test_the_limits_of_a_whole_pass_are_not_those_of_one_kernel() -> None:
    said = words(open_page("whole_model"))
    assert "any device measured" not in said
    assert "the kernel inside a model" not in said


def test_logits_of_all_positions_stand_above_the_scores() -> None:
    tensors = tensor_sizes.ranked(GPT2, Workload(1, 1024, 1024, "fp16", True))
    assert tensors[0].name == tensor_sizes.ALL_LOGITS
    assert tensors[0].bytes == 1024 * 50257 * 2
    assert tensor_sizes.size_of(tensors, tensor_sizes.SCORE_TENSOR) == 12 * 1024**2 * 2
    assert tensor_sizes.size_of(tensors, tensor_sizes.LAST_LOGITS) == 50257 * 2
    assert open_page("whole_model").metric[0].value == bytes_text(1024 * 50257 * 2)


def test_roofs_are_the_printed_ceilings_and_the_sheets() -> None:
    at = open_page("roofline")
    measured, sheet = line(at, "measured"), line(at, "sheet")
    assert max(measured.values()) == pytest.approx(31.4e12)
    assert min(measured.values()) == pytest.approx(0.1 * 278e9)
    assert max(sheet.values()) == pytest.approx(
        sheet_calibration(catalog.card(SHEET_ID), "fp16").matmul.value
    )
    assert 31.4e12 / 278e9 in measured


def test_ways_across_the_roofline_are_bounds() -> None:
    at = open_page("roofline", roofline_device="h100-sxm")
    shape = {"batch": 1, "heads": 12, "kv_heads": 12, "head_dim": 64, "dtype": "fp16", "causal": True}
    limits = roofline.roofs(_scene(), "h100-sxm", None, "fp16").limits
    drawn = line(at, "fused")
    assert len(drawn) == len(TOKENS)
    seconds = attention_bound("flash", limits, q_len=4096, kv_len=4096, device="cuda", **shape).seconds
    flops = 2 * 12 * 4096 * 4097 * 64
    assert any(rate == pytest.approx(flops / seconds) for rate in drawn.values())


def test_three_regimes_on_the_chapters_card() -> None:
    heading = open_page("roofline").main.get("subheader")[0].value
    assert "naive prefill by bandwidth" in heading
    assert "fused prefill by arithmetic" in heading
    assert "decode step by launch" in heading
    rows = open_page("roofline").main.get("table")[-1].value
    assert list(rows[rows["work"] == "decode step"]["limited by"])[-1] == LAUNCH
    assert "decode step by bandwidth" in open_page("roofline", batch=64).main.get("subheader")[0].value


def test_a_launch_never_speeds_work_up() -> None:
    roof = roofline.roofs(_scene(), "recorded", None, "fp16")
    call = roofline.shape(_scene(), roofline.DECODE, 128, "fp16", "cuda", causal=True)
    with_launch, without = roofline.place(roofline.DECODE, roof, call), replace(roof, call_launch_s=None)
    assert with_launch.limited_by == LAUNCH
    assert with_launch.rate < roofline.place(roofline.DECODE, without, call).rate


def test_recorded_points_stay_below_their_roof() -> None:
    scene = _scene()
    roof = roofline.roofs(scene, "recorded", None, "fp16")
    marks = roofline.marks(scene, roof, [CHAPTER], recorded=True, causal=True)
    assert {mark.series for mark in marks} == set(roofline.LABELS)
    assert all(mark.y <= roofline.attainable(mark.x, roof.limits) for mark in marks)


def _scene() -> scenario.Scenario:
    return scenario.Scenario(GPT2, 1024, 1, "fp16", "auto", CHAPTER, True)


def with_options(file: str, **values: Iterable[object]) -> list[dict[str, object]]:
    return pairs(**values, **OPTIONS[file])


@pytest.mark.parametrize(
    ("file", "shown"),
    [("batch_and_bandwidth", "recorded"), ("batch_and_bandwidth", "split"), ("whole_model", "lengths")],
)
def test_linear_axes_begin_at_zero_and_hold_every_line(file: str, shown: str) -> None:
    at = open_page(file, **{f"{file}_shown": shown, f"{file}_axes": "linear"})
    spec, data = chart(at)
    (scale,) = {
        json.dumps(layer["encoding"]["y"]["scale"])
        for layer in spec["layer"]
        if "scale" in layer["encoding"].get("y", {})
    }
    low, high = json.loads(scale)["domain"]
    assert json.loads(scale)["type"] == "linear"
    assert (low, high >= max(row["y"] for row in data["lines"])) == (0, True)


@pytest.mark.parametrize("file", FILES)
def test_controls_at_their_extremes_break_nothing(file: str) -> None:
    ends = {"context": (TOKENS[0], TOKENS[-1]), "batch": (scenario.BATCHES[0], scenario.BATCHES[-1])}
    assert sweep(file, with_options(file, **ends, dtype=("bf16", "fp32"))) == []


@pytest.mark.parametrize("file", FILES)
def test_every_model_breaks_nothing(file: str) -> None:
    assert sweep(file, pairs(model=catalog.models(), context=(TOKENS[0], TOKENS[-1]), batch=(16,))) == []


@pytest.mark.parametrize("file", FILES)
def test_every_comparison_breaks_nothing(file: str) -> None:
    comparisons = (next(iter(scenario.recorded_runs())), scenario.NOTHING)
    assert sweep(file, with_options(file, recorded=comparisons, units=scenario.UNITS)) == []


@pytest.mark.parametrize("file", FILES)
def test_a_context_past_the_models_limit_is_marked(file: str) -> None:
    if file != "my_machine":  # whose runs are of whatever context they were measured at
        assert "Beyond the model's 1,024" in words(open_page(file, context=4096))
