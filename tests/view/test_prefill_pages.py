"""The pages of the prefill section beside The T×T tensor: their numbers are the cost model's."""

import subprocess
import sys

import numpy as np
import pytest

from lab import runs
from lab.cost import attention_bound, attention_flops, catalog, crossing_context, fit_exponent
from lab.cost.budget import budget
from lab.cost.chapter_card import SHEET_ID
from lab.cost.shapes import Workload, decode, prefill
from lab.cost.tiles import Tile, slot_pairs
from lab.runs import Point, Timing
from lab.view import ceilings, longer_prompts, scenario, softmax_steps
from lab.view.axes import TOKENS
from lab.view.format import digits, flops_text
from tests.view.pages import ROOT, chart, faults, line, open_page, pairs, sweep
from tests.view.points_of import point
from tests.view.points_of import run as run_of

PAGES = ("count_the_work", "which_kernel_ran", "how_time_scales")
GPT2 = catalog.model("gpt2")
VIEWS = {
    "count_the_work_shown": ("flops", "rate"),
    "how_time_scales_shown": ("time", "causal", "first"),
    "which_kernel_ran_shown": ("backends", "accuracy", "mask"),
    "which_kernel_ran_block": ("16", "4", "8"),
}
CONTROLS = {
    "count_the_work_phase": ("prefill", "decode"),
    "how_time_scales_shortest": ("1", "2048"),
    "which_kernel_ran_step": ("1", "8"),
}
ENDS = (TOKENS[0], TOKENS[-1])


def keep(experiment: str, *points: Point) -> None:
    """Store a run, as if a button had been pressed before."""
    environment = {"device_kind": "cpu", "device_name": "a CPU", "threads": 1}
    runs.save(run_of(*points, experiment=experiment, environment=environment, status="finished"))


def own(file: str, states: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {name: values for name, values in states.items() if name.startswith(file)}


@pytest.mark.parametrize("causal", [True, False])
def test_count_the_work_draws_the_budget_of_a_prompt(causal: bool) -> None:
    at = open_page("count_the_work", batch=4, count_the_work_mask="causal" if causal else "full")
    budgets = {T: budget(GPT2, prefill(4, T, "fp16", causal=causal)) for T in TOKENS}
    assert line(at, "core") == {T: found.core_flops for T, found in budgets.items()}
    assert line(at, "core") == {T: 12 * attention_flops(4, 12, T, T, 64, causal) for T in TOKENS}
    assert line(at, "ffn") == {T: found.feed_forward_flops for T, found in budgets.items()}
    assert line(at, "projections") == {T: found.projection_flops for T, found in budgets.items()}
    assert line(at, "head") == {T: found.lm_head_flops for T, found in budgets.items()}
    assert at.metric[0].value == flops_text(budgets[1024].matmul_flops)


def test_count_the_work_draws_the_budget_of_a_new_token() -> None:
    at = open_page("count_the_work", count_the_work_phase="decode")
    assert line(at, "core") == {T: budget(GPT2, decode(1, T, "fp16")).core_flops for T in TOKENS}
    assert len(set(line(at, "ffn").values())) == 1


@pytest.mark.parametrize(("mask", "tokens", "widths"), [("causal", 6143, 8), ("full", 3072, 4)])
def test_gpt2s_core_passes_the_ffn_at_four_widths_dense_and_eight_causal(
    mask: str, tokens: int, widths: int
) -> None:
    at = open_page("count_the_work", count_the_work_mask=mask)
    (note,) = chart(at)[1]["notes"]
    assert note["x"] == tokens == crossing_context(GPT2, against="feed-forward", causal=mask == "causal")
    assert round(tokens / GPT2.hidden, 2) == pytest.approx(widths, abs=0.01)
    about = "about " if tokens % GPT2.hidden else ""
    assert f"at {tokens:,} tokens, {about}{widths} times the width" in at.subheader[0].value


def test_a_window_that_keeps_the_core_below_the_ffn_is_said_to() -> None:
    at = open_page("count_the_work", model="mistral-7b-v0.1")
    assert "stays below the FFN at every length" in at.subheader[0].value
    assert chart(at)[1]["notes"] == []


def test_retrieved_text_lengthens_the_prompt() -> None:
    at = open_page("count_the_work", model="llama-3-8b", context=2048, dtype="bf16")
    table = at.main.get("table")[0].value
    work = Workload(1, 2048 + longer_prompts.ADDED[1], 2048 + longer_prompts.ADDED[1], "bf16")
    expected = budget(catalog.model("llama-3-8b"), work, logits="last").matmul_flops
    assert table["its FLOPs"][2] == flops_text(expected)
    assert list(table["model's limit"]) == ["within", "within", "within", "beyond", "beyond"]


def test_rates_are_counted_flops_over_recorded_times() -> None:
    at = open_page("count_the_work", count_the_work_shown="rate")
    run = runs.reference_runs()[0]
    expected = {
        attention_flops(1, 12, point.kv_len, point.kv_len, 64, True) / point.timing.median_s
        for point in run.points
        if point.experiment == "scaling" and point.dtype == "fp16" and point.timing
    }
    assert {row["y"] for row in chart(at)[1]["points"]} == expected
    best = max(expected) / ceilings.of_run(run, "fp16").flops_per_s
    assert f"{100 * best:.0f} % of its matmul rate" in at.subheader[0].value


def test_how_time_scales_fits_the_printed_exponents() -> None:
    at = open_page("how_time_scales")
    run = runs.reference_runs()[0]
    table = at.main.get("table")[0].value.set_index(["implementation", "type"])
    for name, printed in run.tables["fitted_exponents_T_ge_1024"].items():
        dtype, implementation = name.split("_")
        times = {
            point.kv_len: point.timing.median_s
            for point in run.points
            if (point.experiment, point.implementation, point.dtype) == ("scaling", implementation, dtype)
            and point.kv_len >= 1024 and point.timing
        }  # fmt: skip
        exponent = fit_exponent(list(times), list(times.values()))
        assert float(table.loc[(implementation, dtype), "exponent"]) == pytest.approx(exponent, abs=0.005)
        assert exponent == pytest.approx(printed, abs=0.015)
        assert table.loc[(implementation, dtype), "fitted over"] == "1k … 8k"
    assert "naive $T^{1.96}$" in at.subheader[0].value


def test_an_exponent_follows_its_range() -> None:
    found = open_page("how_time_scales", how_time_scales_shortest="1").main.get("table")[0].value
    assert set(found["fitted over"]) == {"512 … 8k"}


def test_the_launch_floor_is_the_chapters_shortest_decode_step() -> None:
    run = runs.reference_runs()[0]
    shortest = min(point.timing.median_s for point in run.points if point.q_len == 1 and point.timing)
    assert set(line(open_page("how_time_scales"), "floor_reference").values()) == {shortest}


def test_causal_over_full_is_predicted_by_tiles_and_by_traffic() -> None:
    at = open_page("how_time_scales", how_time_scales_shown="causal")
    card = catalog.card(SHEET_ID)
    for tokens, ratio in line(at, "fused_reference").items():
        call = (12, int(tokens), int(tokens), Tile(64, 64))
        causal, full = (slot_pairs(*call, mask, card.sm_count) for mask in (True, False))
        assert ratio == causal / full
    assert line(at, "fused_here")[4096] == pytest.approx(0.5625, abs=0.03)
    limits = ceilings.of_run(runs.reference_runs()[0], "fp16")
    shape = {"batch": 1, "heads": 12, "kv_heads": 12, "head_dim": 64, "q_len": 4096, "kv_len": 4096}
    causal, full = (
        attention_bound("naive", limits, dtype="fp16", device="cuda", causal=mask, **shape).seconds
        for mask in (True, False)
    )
    assert line(at, "naive_reference")[4096] == pytest.approx(causal / full)
    stated = runs.reference_runs()[0].tables["causal_over_full_time"]
    points = {(row["series"], row["x"]): row["y"] for row in chart(at)[1]["points"]}
    assert points[("fused_reference", 4096)] == stated["efficient"][2]
    assert points[("naive_reference", 1024)] == stated["naive"][0]


def test_causal_over_full_is_measured_in_pairs() -> None:
    shape = {"experiment": "causal", "implementation": "sdpa", "kernel": "flash"}
    keep(
        "causal",
        point(**shape, causal=True, timing=Timing(3e-3, 2e-3, 4e-3, 9)),
        point(**shape, causal=False, timing=Timing(6e-3, 5e-3, 8e-3, 9)),
    )
    at = open_page("how_time_scales", dtype="bf16", how_time_scales_shown="causal")
    (found,) = [row for row in chart(at)[1]["points"] if row["kind"] == "measured"]
    assert (found["series"], found["x"], found["y"]) == ("fused_here", 512, 0.5)
    assert (found["low"], found["high"]) == (2e-3 / 8e-3, 4e-3 / 5e-3)
    assert "SDPA 0.5 at T = 512 on this machine" in at.subheader[0].value


def test_a_first_call_is_set_against_the_warm_one() -> None:
    keep(
        "first_call",
        point(experiment="first_call", timing=Timing(2e-3, n=9, first_call_s=9e-3)),
        point(
            experiment="first_call", implementation="sdpa", kernel="flash",
            timing=Timing(1e-3, n=9, first_call_s=3e-2),
        ),
    )  # fmt: skip
    at = open_page("how_time_scales", dtype="bf16", how_time_scales_shown="first")
    found = {row["series"]: row["y"] for row in chart(at)[1]["points"] if row["kind"] == "measured"}
    assert found == {"warm": pytest.approx(2), "first": pytest.approx(0.3)}
    assert "first call of sdpa at T = 512 took 30 times its warm time" in at.subheader[0].value


def test_which_kernel_ran_gives_the_recorded_reasons_and_errors() -> None:
    at = open_page("which_kernel_ran")
    run = runs.reference_runs()[0]
    table = at.main.get("table")[0].value
    assert table.loc["flash", "fp16"] == run.tables["backends"]["flash"]["fp16"]
    assert table.loc["cuDNN", "fp16"] == run.tables["backends"]["cudnn"]["fp16"]
    assert "math and memory-efficient ran; flash and cuDNN refused" in at.subheader[0].value
    errors = {
        error
        for row in run.tables["max_abs_error_vs_float64"]
        for name, error in row.items()
        if name not in ("T", "dtype")
    }
    assert {row["y"] for row in chart(at)[1]["points"]} == errors
    assert set(line(at, "one_rounding_fp16").values()) == {np.finfo(np.float16).eps / 2}
    assert set(line(at, "one_rounding_fp32").values()) == {np.finfo(np.float32).eps / 2}


def test_which_kernel_ran_shows_what_ran_here() -> None:
    shape = {"experiment": "backends", "variant": "causal", "timing": None}
    keep(
        "backends",
        point(**shape, implementation="math", kernel="attention_math", max_abs_error=2e-3),
        point(**shape, implementation="flash", kernel="flash_for_cpu", max_abs_error=3e-3),
        point(
            **shape, implementation="cudnn", kernel=None, status="refused", reason="not built with cuDNN",
            max_abs_error=None,
        ),
    )  # fmt: skip
    at = open_page("which_kernel_ran", dtype="bf16")
    table = at.main.get("table")[1].value
    assert tuple(table.loc["cuDNN"]) == ("bf16", "refused: not built with cuDNN")
    assert tuple(table.loc["flash"]) == ("bf16", "runs: flash_for_cpu")
    assert "On this machine math and flash ran; cuDNN refused" in at.subheader[0].value
    found = {row["series"]: row["y"] for row in chart(at)[1]["points"] if row["kind"] == "measured"}
    assert found == {"math_here": 2e-3, "fused_here": 3e-3}


@pytest.mark.parametrize("block", [int(block) for block in softmax_steps.BLOCKS])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_online_softmax_ends_at_the_direct_result_to_rounding(block: int, head_dim: int) -> None:
    walk = softmax_steps.walk(head_dim, block)
    assert len(walk.steps) == softmax_steps.KEYS // block
    assert 0 < walk.difference(1) > 1e-3
    assert walk.difference(len(walk.steps)) <= 4 * walk.rounding
    every = np.concatenate([step.scores for step in walk.steps])
    assert walk.steps[-1].maximum == every.max()
    assert len({step.maximum for step in walk.steps}) > 1
    assert walk.steps[-1].total == pytest.approx(np.exp(every - every.max()).sum(), rel=1e-14)


def test_online_softmax_is_stepped_by_the_reader() -> None:
    at = open_page("which_kernel_ran", which_kernel_ran_step="1")
    state = softmax_steps.walk(64, int(next(iter(softmax_steps.BLOCKS)))).steps[0]
    metric = next(item for item in at.metric if item.label == "Running sum l")
    assert metric.value == digits(state.total, 5)
    assert len(at.main.get("table")[-1].value) == 1


@pytest.mark.parametrize("file", PAGES)
def test_a_page_answers_with_zero_clicks(file: str) -> None:
    at = open_page(file)
    assert faults(at) == []
    assert at.title[0].value.endswith("?")
    assert chart(at)[1]["lines"] or chart(at)[1]["points"]


def test_the_pages_render_without_torch() -> None:
    program = (
        "import sys; from lab.measure import jobs; jobs.machine = lambda: None; "
        "from tests.view.pages import faults, open_page; "
        f"assert not any(faults(open_page(file)) for file in {PAGES!r}); "
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip().splitlines()[-1] == "[]"


@pytest.mark.parametrize("file", PAGES)
def test_controls_at_their_extremes_break_nothing(file: str) -> None:
    states = pairs(
        context=ENDS,
        batch=(scenario.BATCHES[0], scenario.BATCHES[-1]),
        **{f"{file}_axes": ("log", "linear"), f"{file}_mask": ("causal", "full")},
        **own(file, VIEWS | CONTROLS),
    )
    assert sweep(file, states) == []


@pytest.mark.parametrize("file", PAGES)
def test_every_model_breaks_nothing(file: str) -> None:
    states = pairs(model=catalog.models(), context=ENDS, **own(file, VIEWS))
    assert sweep(file, [state | {"batch": 16, "dtype": "bf16"} for state in states]) == []


@pytest.mark.parametrize("file", PAGES)
def test_every_type_comparison_device_and_unit_breaks_nothing(file: str) -> None:
    states = pairs(
        dtype=scenario.DTYPES, device=("auto", "cuda"), units=scenario.UNITS,
        recorded=(*scenario.recorded_runs(), scenario.NOTHING), **own(file, VIEWS),
    )  # fmt: skip
    assert sweep(file, states) == []
