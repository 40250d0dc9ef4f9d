"""The pages of the prefill section beside The T×T tensor: their numbers are the cost model's."""

import itertools
from collections.abc import Iterable

import pytest

from lab import runs
from lab.cost import attention_flops, catalog, crossing_context
from lab.cost.budget import budget
from lab.cost.shapes import Workload, decode, prefill
from lab.measure import jobs
from lab.view import ceilings, longer_prompts, measure_panel, scenario
from lab.view.axes import TOKENS
from lab.view.format import flops_text
from tests.view.pages import chart, faults, line, open_page

PAGES = ("count_the_work",)
GPT2 = catalog.model("gpt2")
VIEWS = {"count_the_work_shown": ("flops", "rate")}
PHASES = {"count_the_work_phase": ("prefill", "decode")}
ENDS = (TOKENS[0], TOKENS[-1])


@pytest.fixture(autouse=True)
def _no_child_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are about pages: nothing is measured, no child describes the machine."""
    monkeypatch.setattr(jobs, "machine", lambda: None)
    measure_panel.registry.clear()


def own(file: str, states: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {name: values for name, values in states.items() if name.startswith(file)}


def sweep(file: str, states: Iterable[dict[str, object]]) -> list[str]:
    """Run one reader's page through many scenarios; the faults, each with its scenario."""
    at, found = open_page(file), []
    for state in states:
        for name, value in state.items():
            at.session_state[name] = value
        at.run()
        found += [f"{state}: {fault}" for fault in faults(at)]
    return found


def combinations(**values: Iterable[object]) -> list[dict[str, object]]:
    return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]


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
    assert f"at {tokens:,} tokens, {widths} times the width" in at.subheader[0].value


def test_a_window_that_keeps_the_core_below_the_ffn_is_said_to() -> None:
    at = open_page("count_the_work", model="mistral-7b-v0.1")
    assert "stays below the FFN at every length" in at.subheader[0].value
    assert chart(at)[1]["notes"] == []


def test_retrieved_text_lengthens_the_prompt() -> None:
    at = open_page("count_the_work", model="llama-3-8b", context=2048, dtype="bf16")
    table = at.main.get("dataframe")[0].value
    work = Workload(1, 2048 + longer_prompts.ADDED[1], 2048 + longer_prompts.ADDED[1], "bf16")
    expected = budget(catalog.model("llama-3-8b"), work, logits="last").matmul_flops
    assert table["its FLOPs"][2] == flops_text(expected)
    assert list(table["model's limit"]) == ["within", "within", "within", "beyond", "beyond"]


def test_rates_are_counted_flops_over_recorded_times() -> None:
    at = open_page("count_the_work", count_the_work_shown="rate")
    (run,) = runs.reference_runs()
    expected = {
        attention_flops(1, 12, point.kv_len, point.kv_len, 64, True) / point.timing.median_s
        for point in run.points
        if point.experiment == "scaling" and point.dtype == "fp16" and point.timing
    }
    assert {row["y"] for row in chart(at)[1]["points"]} == expected
    best = max(expected) / ceilings.of_run(run, "fp16").flops_per_s
    assert f"{100 * best:.0f} % of its matmul rate" in at.subheader[0].value


@pytest.mark.parametrize("file", PAGES)
def test_a_page_answers_with_zero_clicks(file: str) -> None:
    at = open_page(file)
    assert faults(at) == []
    assert at.title[0].value.endswith("?")
    assert chart(at)[1]["lines"] or chart(at)[1]["points"]


@pytest.mark.parametrize("file", PAGES)
def test_controls_at_their_extremes_break_nothing(file: str) -> None:
    states = combinations(
        context=ENDS,
        batch=(scenario.BATCHES[0], scenario.BATCHES[-1]),
        **{f"{file}_axes": ("log", "linear"), f"{file}_mask": ("causal", "full")},
        **own(file, VIEWS | PHASES),
    )
    assert sweep(file, states) == []


@pytest.mark.parametrize("file", PAGES)
def test_every_model_breaks_nothing(file: str) -> None:
    states = combinations(model=catalog.models(), context=ENDS, **own(file, VIEWS))
    assert sweep(file, [state | {"batch": 16, "dtype": "bf16"} for state in states]) == []


@pytest.mark.parametrize("file", PAGES)
def test_every_type_comparison_device_and_unit_breaks_nothing(file: str) -> None:
    states = combinations(
        dtype=scenario.DTYPES, device=("auto", "cuda"), units=scenario.UNITS,
        recorded=(*scenario.recorded_runs(), scenario.NOTHING), **own(file, VIEWS),
    )  # fmt: skip
    assert sweep(file, states) == []
