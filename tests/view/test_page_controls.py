"""Controls of the pages on choices and the lab: at most four, none that does nothing, and Measure brings a line."""

from typing import Any

import pytest

from lab.cost import catalog
from lab.cost.budget import budget
from lab.cost.shapes import decode
from lab.measure import jobs
from lab.view import here, measure_panel, suite
from tests.view.pages import chart, faults, open_page, words
from tests.view.points_of import point, run
from tests.view.stub_queue import StubQueue

KINDS = ("selectbox", "button_group", "multiselect", "text_input", "slider", "select_slider", "file_uploader")
MOST = 4
SERVING, TRAINING, MACHINE = "serving_budget", "training_and_rules", "my_machine"
VIEWS = {
    "kv_cache": ("bytes", "heads", "models", "recorded", "here"),
    "batch_and_bandwidth": ("recorded", "here", "split"),
    "what_each_trick_changes": ("memory", "windowed", "gqa", "kv_int8"),
    SERVING: ("memory", "by_type", "by_card"),
    TRAINING: ("step", "factors", "peaks"),
    MACHINE: (None,),
    "claims": (None,),
}


@pytest.fixture(autouse=True)
def queue(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> StubQueue:
    monkeypatch.setattr(jobs, "machine", lambda: None)
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    stub = StubQueue()
    monkeypatch.setattr(measure_panel, "registry", lambda: stub)
    return stub


@pytest.mark.parametrize(("page", "shown"), [(page, one) for page, views in VIEWS.items() for one in views])
def test_a_view_has_at_most_four_controls(page: str, shown: str | None) -> None:
    at = open_page(page, **({f"{page}_shown": shown} if shown else {}))
    assert 0 < sum(len(at.main.get(kind)) for kind in KINDS) <= MOST


def test_the_bytes_axis_is_offered_only_where_bytes_are_drawn() -> None:
    assert not open_page(TRAINING, **{f"{TRAINING}_shown": "factors"}).main.get("button_group")
    for shown in ("step", "peaks"):
        assert len(open_page(TRAINING, **{f"{TRAINING}_shown": shown}).main.get("button_group")) == 1


def test_measuring_on_serving_brings_this_machines_line_and_moves_nothing_else(
    queue: StubQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(here, "memory", lambda _: (16 * 2**30, "this machine's memory"))
    at = open_page(SERVING)
    at.main.button(key=f"measure_{SERVING}").click().run()
    assert at.main.selectbox(key=f"{SERVING}_shown").value == "by_type"
    before, data = chart(at)
    assert "here" not in {row["series"] for row in data["lines"]}
    step = point(experiment="decode", implementation="sdpa", q_len=1, kv_len=1024)
    done = run(
        step, experiment="decode", environment={"device_kind": "cpu"},
        ceilings={"flops_per_s": 1e11, "copy_bytes_per_s": 2e10, "how": "probe"},
    )  # fmt: skip
    queue.set("job-1", state="finished", place=0, run=done, seconds_running=5.0)
    at.run()
    assert faults(at) == []
    after, data = chart(at)
    assert "here" in {row["series"] for row in data["lines"]}
    assert after == before


def test_a_lone_sequence_that_fits_is_said_in_the_singular() -> None:
    state = {"model": "llama-2-7b", "context": 65536}
    at = open_page(SERVING, **state)
    assert "1 sequence of LLaMA-2-7B at T = 64k with fp16 KV fits into" in at.main.subheader[0].value
    assert "1 sequences" not in words(at)
    assert not any("1 sequences" in row["what"] for row in chart(at)[1]["segments"])
    assert (
        "no second one fits"
        in open_page(SERVING, **state, **{f"{SERVING}_shown": "by_type"}).subheader[0].value
    )


def test_suites_stand_among_what_can_be_measured(queue: StubQueue) -> None:
    at = open_page(MACHINE, **{f"{MACHINE}_experiment": "all"})
    assert suite.words("all") in words(at)
    at.main.button(key=f"measure_{MACHINE}").click().run()
    assert (queue.view("job-1").spec.experiment, queue.view("job-1").spec.quick) == ("all", True)


def test_the_phases_say_where_the_quadratic_term_is() -> None:
    at = open_page(TRAINING, model="llama-2-7b", context=2048)
    table = next(one.value for one in at.main.get("table") if "quadratic term" in one.value).set_index(
        "phase"
    )
    assert list(table["quadratic term"]) == ["yes", "yes", "no"]
    assert table.loc["decode, one new token", "scores per head"] == "1 × T = 1 × 2,048"
    assert table.loc["decode, one new token", "T doubles"] == "× 2"
    headings = [one.value for one in at.main.subheader]
    assert (
        "LLaMA-2-7B: the quadratic term is in training and in reading a prompt, not in a decode step"
        in headings
    )
    windowed = open_page(TRAINING, model="mistral-7b-v0.1", context=16384)
    assert any("no phase is quadratic here" in one.value for one in windowed.main.subheader)
    doubled = next(one.value for one in at.main.get("table") if "batch doubles" in one.value)
    said = dict(zip(doubled["quantity"], doubled["T doubles"], strict=True))
    assert said["attention FLOPs of a step"] == "× 2"
    shape = catalog.model("llama-2-7b")
    core = budget(shape, decode(1, 2048, "fp16")).core_flops
    assert f"{core / 1e9:.3g} GFLOPs" in list(doubled["now"])
    assert {"latency of a prompt, products and weights alone", "latency of a step, at least"} <= set(said)


def test_one_thing_is_written_in_the_singular() -> None:
    assert (
        "one new token of one sequence at T = 1k"
        in open_page("batch_and_bandwidth").main.metric[0].proto.help
    )
    assert "1 KV head of 128" in words(open_page("kv_cache", model="starcoder"))
    assert "1 layers" not in words(open_page(TRAINING, model="deepseek-v2-lite"))
    at = open_page("claims", claims_search="chapter.opening.eleven")
    assert "1 holds, 0 in part, 0 are wrong" in at.main.subheader[0].value
