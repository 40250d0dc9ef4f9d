"""The pages on limits, on batches and on this machine: their numbers are those of lab.cost."""

import io
import json
import zipfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from lab import runs
from lab.cost import attention_bound, catalog, kv_bytes
from lab.cost.budget import budget
from lab.cost.chapter_card import SHEET_ID, sheet_calibration
from lab.cost.chapter_score import decode_cells, gpt2_cells
from lab.cost.predict import ARITHMETIC, LAUNCH
from lab.cost.prediction_model import predict_gpt2
from lab.cost.score import score
from lab.cost.shapes import Workload
from lab.measure import jobs
from lab.view import (
    agreement,
    calibrations,
    measure_panel,
    modules,
    roofline,
    run_files,
    scenario,
    step_bars,
    tensor_sizes,
)
from lab.view.axes import TOKENS
from lab.view.format import bytes_text, scaled, seconds_text, share
from tests.view.pages import chart, faults, line, open_page, pairs, sweep, words

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


@pytest.fixture(autouse=True)
def _no_child_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is measured, no child describes the machine, and its own runs stay out of it."""
    monkeypatch.setattr(jobs, "machine", lambda: None)
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    measure_panel.registry.clear()


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


def test_agreement_scores_the_chapter_without_the_cells_that_gave_constants() -> None:
    pairs = agreement.pairs([CHAPTER], agreement.TIME)
    fitted = [pair for pair in pairs if pair.cell.role == agreement.FITTED]
    assert len(fitted) == 4
    found = agreement.scored(pairs, 0.2)
    assert found == score([pair.cell for pair in pairs], 0.2)
    at = open_page("my_machine")
    heading = at.main.get("subheader")[0].value
    assert f"{found.cells - len(found.misses)} of {found.cells} predicted times" in heading
    assert {(row["x"], row["y"]) for row in chart(at)[1]["points"]} == {
        (pair.cell.predicted, pair.cell.measured) for pair in pairs
    }


def test_recorded_peaks_are_paired_with_their_predictions() -> None:
    pairs = agreement.pairs([CHAPTER], agreement.PEAK)
    assert {pair.point.implementation for pair in pairs} == {"naive", "math", "efficient"}
    assert agreement.scored(pairs, 0.2).mean_absolute_error < 0.2


class File:
    """A file as the browser sends it."""

    def __init__(self, name: str, content: bytes) -> None:
        self.name, self._content = name, content

    def getvalue(self) -> bytes:
        return self._content


def test_uploads_are_read_or_refused_in_a_sentence() -> None:
    good = File("good.json", runs.to_text(CHAPTER).encode())
    found, refusals = run_files.read([good, File("bad.json", b"{"), File("other.json", b"[1]")])
    assert found == [CHAPTER]
    assert len(refusals) == 2
    assert refusals[0].startswith("bad.json is damaged")
    assert refusals[1].startswith("other.json is not a run file")


def test_an_archive_loads_back() -> None:
    with zipfile.ZipFile(io.BytesIO(run_files.archive([CHAPTER]))) as file:
        assert runs.from_text(file.read(f"{CHAPTER.run_id}.json")) == CHAPTER
        assert file.read(f"{CHAPTER.run_id}.csv").count(b"\n") == len(CHAPTER.points) + 1


def test_words_of_a_run_file_are_escaped() -> None:
    assert "<script>" not in run_files.legend([("#000000", "●", "<script>alert(1)</script>")])


def test_runs_kept_here_stand_beside_the_recorded_one() -> None:
    own = replace(
        CHAPTER,
        run_id="mine",
        recorded_on=None,
        points=CHAPTER.points[:9],
        created_utc="2026-01-31T12:00:00Z",
    )
    runs.save(own)
    at = open_page("my_machine")
    assert faults(at) == []
    assert at.multiselect[0].value == ["mine", CHAPTER.run_id]


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
