import ast

import pytest
from streamlit.testing.v1 import AppTest

from lab import runs
from lab.cost import catalog
from lab.view import ceilings, navigation, scenario
from lab.view.axes import TOKENS
from lab.view.caveats import caveats, contents
from tests.view.pages import FILES, ROOT, chart, faults, go, open_page


def test_labels_are_unique_because_the_address_holds_them() -> None:
    for choice in scenario.choices():
        labels = [choice.text(option) for option in choice.options]
        assert len(set(labels)) == len(labels)
        assert choice.default in choice.options


def test_the_labels_of_links_stay_what_they_are() -> None:
    by_key = {choice.key: choice for choice in scenario.choices()}
    assert [by_key["context"].text(T) for T in TOKENS] == [
        *("128", "256", "512", "1k", "2k", "4k", "8k", "16k", "32k", "64k", "128k")
    ]
    assert by_key["model"].text("gpt2") == "GPT-2 small"
    assert set(by_key["model"].options) == set(catalog.models())
    assert [by_key["units"].text(unit) for unit in by_key["units"].options] == ["GiB", "GB"]
    assert list(by_key) == ["model", "context", "batch", "dtype", "device", "recorded", "units"]


def test_the_scenario_survives_from_page_to_page() -> None:
    at = open_page("start_here", model="llama-3-8b", context=8192, batch=16, dtype="bf16")
    for file in (*FILES[1:], FILES[0]):
        at.switch_page(f"pages/{file}.py").run()
        assert at.sidebar.selectbox[0].value == "llama-3-8b"
        assert [slider.value for slider in at.sidebar.select_slider] == [8192, 16]


def test_an_unknown_label_falls_back_with_a_sentence_that_stays_until_a_change() -> None:
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    at.query_params["model"] = "GPT-9"
    at.query_params["context"] = "7"
    at.run()
    sentences = [warning.value for warning in at.warning]
    assert sentences[0] == (
        "The link asks for model “GPT-9”, which is not one of the options here; showing GPT-2 small."
    )
    assert "“7”" in sentences[1]
    assert at.sidebar.selectbox[0].value == "gpt2"
    at.run()
    assert len(at.warning) == 2
    at.sidebar.selectbox[0].set_value("llama-3-8b").run()
    assert not at.warning


def test_a_known_label_in_the_address_sets_the_widget() -> None:
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    at.query_params["model"] = "Llama-3-8B"
    at.query_params["context"] = "8k"
    at.run()
    assert not at.warning
    assert at.sidebar.selectbox[0].value == "llama-3-8b"
    assert at.sidebar.select_slider[0].value == 8192


def test_every_page_of_the_list_has_a_file_and_every_file_is_on_the_list() -> None:
    listed = {entry.file for entry in navigation.ENTRIES}
    assert listed == {path.stem for path in (ROOT / "pages").glob("*.py")}
    assert navigation.neighbours(FILES[0])[0] is None
    assert navigation.neighbours(FILES[-1])[1] is None
    with pytest.raises(ValueError, match="file must be one of start_here"):
        navigation.entry("no_such_page")


@pytest.mark.parametrize("file", FILES)
def test_a_pages_first_statement_is_the_guard(file: str) -> None:
    body = ast.parse((ROOT / "pages" / f"{file}.py").read_text(encoding="utf-8")).body
    first = next(node for node in body[1:] if not isinstance(node, ast.Import | ast.ImportFrom))
    assert ast.unparse(first) == "navigation.guard()"


def test_recorded_runs_are_offered_by_unique_names_and_all_have_points() -> None:
    offered = scenario.recorded_runs()
    assert next(iter(offered)) == "the chapter's card"
    assert all(run.points and run.recorded_on for run in offered.values())
    assert len(offered) == sum(bool(run.points) for run in runs.reference_runs())


@pytest.mark.parametrize("name", ["D01", "D09", "D20"])
def test_a_published_run_draws_no_point_of_another_shape_and_every_page_says_what_it_holds(name: str) -> None:
    label, run = next(item for item in scenario.recorded_runs().items() if item[1].run_id.endswith(name))
    at = open_page("start_here", recorded=label)
    for file in FILES:
        go(at, file)
        assert faults(at) == []
        assert contents(run) in [caption.value for caption in at.sidebar.caption]
        if file != "my_machine":  # where all runs stand side by side
            assert {row["kind"] for row in chart(at)[1].get("points", ())} <= {"refused", "measured"}


def test_the_roof_of_a_published_run_is_the_data_sheet_of_its_card() -> None:
    run = next(run for run in runs.reference_runs() if run.run_id == "published-D09")
    card = catalog.card("h100-sxm")
    assert ceilings.reference(run, "fp16").flops_per_s == card.dense_flops["fp16"]
    assert ceilings.reference(run, "fp16").bytes_per_s == card.memory_bandwidth_bytes_per_s


def test_my_machine_lists_every_published_table_with_its_source_or_the_reason_why_it_has_no_point() -> None:
    at = open_page("my_machine")
    (table,) = [item.value for item in at.dataframe if "what it holds" in item.value.columns]
    published = [run for run in runs.reference_runs() if run.title is not None]
    assert list(table["table"]) == [run.title for run in published]
    assert list(table["source"]) == [run.source for run in published]
    for run, said in zip(published, table["what it holds"], strict=True):
        assert said == (contents(run) if run.points else run.message)


def test_the_name_of_a_recorded_run_is_told_apart_where_the_bar_cuts_it_off() -> None:
    assert len({label[:20] for label in scenario.recorded_runs()}) == len(scenario.recorded_runs())


def test_what_a_recorded_run_lacks_is_said_with_what_it_holds() -> None:
    chapter, decode = (
        run for run in runs.reference_runs() if run.run_id in ("chapter-card", "published-D20")
    )
    assert f"Nothing of this kind is known of an A100. {contents(decode)}" in caveats(
        [(decode, "an A100")], ("memory", "model")
    )
    assert "16 heads of 128 on 2 KV heads" in contents(decode)
    assert "(a card, a table without samples)" in caveats([(chapter, "a card")], ("model",))
    assert "Nothing of this kind" not in caveats([(chapter, "a card")], ("memory",))
