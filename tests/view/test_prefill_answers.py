"""The headings and terms of the prefill pages follow the scenario: its number type, its context, its model."""

import pytest

from lab import runs
from lab.view import accuracy_marks, first_calls
from lab.view.format import seconds_text, times
from tests.view.pages import chart, line, open_page, words

CHAPTER = runs.reference_runs()[0]


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_an_error_is_told_in_its_own_number_type(dtype: str) -> None:
    at = open_page("which_kernel_ran", dtype=dtype)
    rows = runs.reference_runs()[0].tables["max_abs_error_vs_float64"]
    own = [
        value
        for row in rows
        if row["dtype"] == dtype
        for name, value in row.items()
        if name not in ("T", "dtype")
    ]
    said = f"every {dtype} answer lies within {max(own):.1e}" if own else None
    heading = at.subheader[0].value
    assert said in heading if said else "within" not in heading
    roundings = accuracy_marks.most_roundings(runs.reference_runs()[0])
    assert f"at most {roundings} of its type" in words(at)
    assert "a few roundings" not in words(at)


@pytest.mark.parametrize(
    ("context", "said"),
    [
        (1024, "At T = 1k naive"),
        (4096, "At T = 4k naive"),
        (128, "At T = 512, of those timed the nearest to 128,"),
    ],
)
def test_start_here_compares_at_the_scenarios_context(context: int, said: str) -> None:
    heading = open_page("start_here", context=context).subheader[0].value
    assert heading.startswith(said)
    timed = {
        point.implementation: point.timing.median_s
        for point in CHAPTER.points
        if (point.experiment, point.dtype, point.kv_len) == ("scaling", "fp16", max(context, 512))
        and point.timing
    }
    assert f"took {seconds_text(timed['naive'])} on the chapter's card" in heading
    assert f"SDPA {seconds_text(timed['efficient'])}" in heading


@pytest.mark.parametrize("model", ["llama-3-8b", "gemma-3-4b"])
def test_growth_is_a_number_where_no_exponent_was_measured(model: str) -> None:
    at = open_page("how_time_scales", model=model, context=4096)
    drawn = {name: line(at, f"{name}_reference") for name in ("naive", "fused")}
    naive, fused = (times(found[8192] / found[4096]) for found in drawn.values())
    assert f"grows {naive} for naive, {fused} for SDPA" in at.subheader[0].value


def test_the_chart_of_first_calls_holds_the_numbers_of_its_heading() -> None:
    at = open_page("how_time_scales", how_time_scales_shown="first")
    stated = first_calls.stated(CHAPTER)
    assert {row["y"] for row in chart(at)[1]["limits_y"]} == {stated.cold, stated.warm}
    for ratio in (stated.cold, stated.warm):
        assert times(ratio) in at.subheader[0].value
        assert any(times(ratio) in row["label"] for row in chart(at)[1]["limits_y"])
    assert (
        chart(open_page("how_time_scales", how_time_scales_shown="first", recorded="nothing"))[1]["limits_y"]
        == []
    )


@pytest.mark.parametrize("file", ["start_here", "how_time_scales"])
def test_a_line_can_be_opened_into_the_terms_that_it_adds_up(file: str) -> None:
    at = open_page(file, context=4096)
    assert any("added up from at T = 4k" in one.label for one in at.main.get("expander"))
    (table,) = [one.value for one in at.main.get("table") if "pass" in one.value.columns]
    for name, key in (("naive", "naive_reference"), ("SDPA", "fused_reference")):
        own = table[(table["line"] == name) & (table["pass"] == "sum")]
        assert list(own["time"]) == [seconds_text(line(at, key)[4096])]
    assert "softmax" in set(table["pass"])
