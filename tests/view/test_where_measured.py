"""A time belongs to the device that measured it, and one state has one set of ceilings on every page."""

import re

import pytest

from lab import runs
from lab.cost import catalog
from lab.cost.predict import attention_bound
from lab.view import ceilings, roofline, scenario
from lab.view.format import seconds_text
from tests.view.pages import line, open_page, words

CHAPTER = runs.reference_runs()[0]
PREFILL = ("start_here", "how_time_scales", "count_the_work", "roofline")


@pytest.mark.parametrize("file", PREFILL)
def test_what_the_chapters_card_measured_is_no_sheets(file: str) -> None:
    at = open_page(file, dtype="fp32", count_the_work_shown="rate")
    assert "A100" not in words(at)
    assert "**The chapter's card**, " in words(at)


def test_one_state_has_one_least_time_on_every_page() -> None:
    limits = ceilings.reference(CHAPTER, "fp32")
    shape = {"batch": 1, "heads": 12, "kv_heads": 12, "q_len": 1024, "kv_len": 1024, "head_dim": 64}
    least = attention_bound("flash", limits, dtype="fp32", causal=True, device="cuda", **shape).seconds
    assert line(open_page("start_here", dtype="fp32"), "fused_reference")[1024] == least
    scene = scenario.Scenario(catalog.model("gpt2"), 1024, 1, "fp32", "auto", CHAPTER, True)
    assert roofline.roofs(scene, roofline.RECORDED, None, "fp32").limits == limits
    table = open_page("roofline", dtype="fp32").main.get("table")[-1].value
    (fused,) = table[table["work"] == "fused prefill"]["least time"]
    assert fused == seconds_text(least)


@pytest.mark.parametrize("file", PREFILL)
def test_a_sheet_that_stands_in_is_named_in_a_badge(file: str) -> None:
    at = open_page(file, dtype="bf16", count_the_work_shown="rate")
    assert "the chapter's card has no bf16 rate: NVIDIA A100" in words(at)
    assert not re.search(r"(measured|ran) on NVIDIA A100|other than those measured \(NVIDIA", words(at))
    assert "Lines: NVIDIA A100" in words(open_page("start_here", recorded=scenario.NOTHING))


def test_sources_of_a_sheet_are_counted_and_not_listed() -> None:
    for card_id in catalog.hardware():
        limits = ceilings.of_card(card_id, "fp16")
        assert limits is None or (len(limits.source) < 80 and "@" not in limits.source)


def test_a_machine_without_a_roof_is_told_whose_roof_follows() -> None:
    at = open_page("roofline", roofline_device=roofline.HERE)
    said = at.main.get("subheader")[1].value
    assert said.startswith("This machine is not calibrated")
    assert "under the chapter's card" in said
    assert "A100" not in words(at)


@pytest.mark.parametrize("file", ["score_tensor", "start_here", "how_time_scales", "roofline"])
def test_the_limits_name_a_run_only_where_its_points_are_drawn(file: str) -> None:
    limits = {
        model: words(open_page(file, model=model)).split(":material/report: ")[1]
        for model in ("gpt2", "gemma-3-4b")
    }
    assert "the chapter's card, 12 heads of 64" in limits["gpt2"]
    assert "12 heads of 64" not in limits["gemma-3-4b"]
    assert all("a hand-counted estimate" in said for said in limits.values())
