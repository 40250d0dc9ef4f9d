import itertools
import subprocess
import sys

import pytest

from lab import runs
from lab.cost import attention_flops, catalog, kv_bytes, score_bytes, serving
from lab.cost.chapter_card import SHEET_ID
from lab.cost.predict import attention_bound
from lab.cost.traffic import peak_extra_bytes
from lab.view import ceilings, here, scenario
from lab.view.axes import TOKENS
from lab.view.format import bytes_text, flops_text
from tests.view.pages import FILES, ROOT, chart, faults, line, open_page, pairs, sweep, words

GPT2 = {"batch": 1, "heads": 12, "kv_heads": 12, "head_dim": 64, "causal": True}

SWEPT_HERE = (
    "start_here", "score_tensor", "kv_cache", "what_each_trick_changes", "serving_budget", "training_and_rules",
    "claims",
)  # fmt: skip
"""Pages that are swept here; the tests of the prefill and limits sections sweep theirs, with their views."""

WITHOUT_CONTEXT = ("my_machine", "claims")
"""Pages about runs and sources: the context of the scenario bar changes nothing on them."""


@pytest.mark.parametrize("file", FILES)
def test_a_page_shows_its_point_with_zero_clicks(file: str) -> None:
    at = open_page(file)
    spec, data = chart(at)
    assert faults(at) == []
    assert len(at.title) == 1
    assert at.title[0].value.endswith("?")
    assert any(data.values())
    assert spec["layer"]
    assert at.main.get("subheader")[0].value


def test_score_tensor_lines_are_the_cost_model() -> None:
    at = open_page("score_tensor", context=4096)
    shape = GPT2 | {"dtype": "fp16", "threads": here.threads(), "device": "cpu"}
    for series, name in (("naive", "naive"), ("math", "math"), ("fused", "flash")):
        expected = {T: peak_extra_bytes(name, q_len=T, kv_len=T, **shape) for T in TOKENS}
        assert line(at, series) == expected
    assert line(at, "scores") == {T: score_bytes(1, 12, T, T, 2) for T in TOKENS}
    assert at.metric[0].value == bytes_text(score_bytes(1, 12, 4096, 4096, 2)) == "384 MiB"
    peak = bytes_text(peak_extra_bytes("flash", q_len=4096, kv_len=4096, **shape))
    assert f"in {peak} {here.computed_by('cpu', here.threads())}" in at.subheader[0].value
    assert f"more than the {bytes_text(catalog.card(SHEET_ID).memory_bytes)} of the card" in words(at)


def test_score_tensor_shows_the_recorded_peaks() -> None:
    recorded = [
        point for point in chart(open_page("score_tensor"))[1]["points"] if point["kind"] == "recorded"
    ]
    run = runs.reference_runs()[0]
    peaks = {point.peak_extra_bytes for point in run.points if point.experiment == "memory"}
    assert {point["y"] for point in recorded} == peaks


def test_start_here_lines_are_rooflines_of_the_recorded_card() -> None:
    at = open_page("start_here")
    limits = ceilings.of_run(runs.reference_runs()[0], "fp16")
    for series, name in (("naive_reference", "naive"), ("fused_reference", "flash")):
        for T, seconds in line(at, series).items():
            shape = GPT2 | {"dtype": "fp16", "device": "cuda", "q_len": int(T), "kv_len": int(T)}
            assert seconds == pytest.approx(attention_bound(name, limits, **shape).seconds)
    assert at.metric[0].value == flops_text(attention_flops(1, 12, 1024, 1024, 64, True))
    assert at.subheader[0].value.startswith("At T = 1k naive attention took")
    assert "11 times faster" in open_page("start_here", context=8192).subheader[0].value


def test_kv_cache_finds_gpt2s_crossover_near_6_6() -> None:
    at = open_page("kv_cache", batch=7)
    crossing = serving.crossover_batch(catalog.model("gpt2"), 1024)
    assert crossing == pytest.approx(6.6, abs=0.1)
    (note,) = chart(at)[1]["notes"]
    assert note["x"] == crossing
    assert "from batch 7 on" in at.subheader[0].value
    assert at.metric[0].value == bytes_text(kv_bytes(7, 12, 12, 1024, 64, 2)) == "252 MiB"
    cache = line(at, "cache_1024")
    assert cache == {b: kv_bytes(int(b), 12, 12, 1024, 64, 2) for b in cache}
    weights = line(at, "weights")
    assert weights[1] == serving.decode_traffic(catalog.model("gpt2"), 1, 1024).weight_bytes


def test_kv_cache_turns_to_time_with_bounds_by_batch() -> None:
    at = open_page("kv_cache", kv_cache_shown="recorded")
    limits = ceilings.of_run(runs.reference_runs()[0], "fp16")
    shape = GPT2 | {"dtype": "fp16", "device": "cuda", "q_len": 1, "kv_len": 4096, "batch": 16}
    assert line(at, "batch_16")[4096] == pytest.approx(attention_bound("flash", limits, **shape).seconds)
    recorded = [point for point in runs.reference_runs()[0].points if point.experiment == "decode"]
    assert {row["y"] for row in chart(at)[1]["points"]} == {point.timing.median_s for point in recorded}


@pytest.mark.parametrize("file", [file for file in FILES if file not in WITHOUT_CONTEXT])
def test_a_context_past_the_models_limit_is_marked(file: str) -> None:
    assert "Beyond the model's 1,024" in words(open_page(file, context=4096))
    assert "Beyond" not in words(open_page(file, context=1024))


def test_units_follow_the_switch() -> None:
    assert open_page("score_tensor", units="binary").metric[0].value == "24 MiB"
    assert open_page("score_tensor", units="decimal").metric[0].value == "25.2 MB"


@pytest.mark.parametrize("file", SWEPT_HERE)
def test_controls_at_their_extremes_break_nothing(file: str) -> None:
    extremes = pairs(
        context=(TOKENS[0], TOKENS[-1]),
        batch=(scenario.BATCHES[0], scenario.BATCHES[-1]),
        dtype=(scenario.DTYPES[0], scenario.DTYPES[-1]),
        **{f"{file}_axes": ("log", "linear")},
    )
    assert sweep(file, [state | {"units": "decimal"} for state in extremes]) == []


@pytest.mark.parametrize(
    "file", ["start_here", "score_tensor", "kv_cache", "claims"]
)  # the others: with their views
def test_every_model_of_the_catalogue_breaks_nothing(file: str) -> None:
    ends = itertools.cycle((TOKENS[0], TOKENS[-1]))
    states = [{"model": model, "context": next(ends), "batch": 16} for model in catalog.models()]
    assert sweep(file, states) == []


@pytest.mark.parametrize("file", SWEPT_HERE)
def test_every_comparison_and_device_breaks_nothing(file: str) -> None:
    comparisons = (next(iter(scenario.recorded_runs())), scenario.NOTHING)
    states = pairs(device=("auto", "cuda"), recorded=comparisons)
    assert sweep(file, [*states, *({"device": device} for device in scenario.DEVICES)]) == []


@pytest.mark.parametrize("shown", ["recorded", "here"])
def test_the_time_view_of_the_kv_cache_breaks_nothing(shown: str) -> None:
    comparisons = (next(iter(scenario.recorded_runs())), scenario.NOTHING)
    states = pairs(recorded=comparisons, dtype=scenario.DTYPES, kv_cache_axes=("log", "linear"))
    assert sweep("kv_cache", [state | {"kv_cache_shown": shown} for state in states]) == []


def test_every_mask_breaks_nothing() -> None:
    states = pairs(score_tensor_mask=("full", "causal"), context=(TOKENS[0], TOKENS[-1]))
    assert sweep("score_tensor", states) == []


def test_values_that_are_no_options_are_clamped() -> None:
    at = open_page(
        "score_tensor", context=10**12, batch=-5, dtype="int1", model="no such model", units="pounds"
    )
    assert faults(at) == []
    assert at.metric[0].value == "24 MiB"


def test_the_analytic_pages_render_without_torch() -> None:
    program = (
        "import sys; from lab.measure import jobs; jobs.machine = lambda: None; "
        "from tests.view.pages import FILES, faults, open_page; "
        "assert not any(faults(open_page(file)) for file in FILES); "
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip().splitlines()[-1] == "[]"
