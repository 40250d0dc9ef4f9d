"""The measure panel in every state a job can be in, without measuring anything."""

import pytest

from lab.view import owners
from tests.view.pages import chart, faults, open_page, words
from tests.view.points_of import point, run
from tests.view.stub_queue import REFUSAL, StubQueue, kinds, memory_point, memory_run, pressed, progress

pytestmark = pytest.mark.usefixtures("queue")


def test_measure_submits_the_scenario(queue: StubQueue) -> None:
    at = open_page("score_tensor", model="llama-3-8b", batch=2, context=8192, dtype="bf16", device="cpu")
    at.main.button(key="measure_score_tensor").click().run()
    (view,) = queue.views()
    spec = view.spec
    assert (spec.experiment, spec.device, spec.dtype) == ("memory", "cpu", "bf16")
    assert (spec.heads, spec.kv_heads, spec.head_dim, spec.batches) == (32, 8, 128, (2,))
    assert spec.lengths == (512, 1024, 2048, 4096, 8192)


def test_nothing_is_measured_before_the_button_is_pressed(queue: StubQueue) -> None:
    at = open_page("score_tensor")
    assert queue.views() == ()
    assert not at.main.get("progress")
    assert "Up to" in words(at)


def test_a_queued_job_shows_its_place(queue: StubQueue) -> None:
    at = pressed(queue)
    assert progress(at) == "In the queue, number 2: one measurement at a time runs on a device."
    queue.set("job-1", place=1)
    at.run()
    assert progress(at).startswith("In the queue, next")
    assert at.main.button(key="measure_score_tensor").disabled


def test_points_appear_as_they_come_and_the_spec_stays(queue: StubQueue) -> None:
    at = pressed(queue)
    before = at.main.get("vega_lite_chart")[0].proto.spec
    partial = memory_run(memory_point(max_abs_error=None), status="running")
    queue.set("job-1", state="running", place=0, done=1, total=12, what="math at T = 512", run=partial)
    at.run()
    assert kinds(at) == ["pending"]
    assert progress(at).startswith("math at T = 512")
    complete = memory_run(memory_point(), memory_point(implementation="math"), status="running")
    queue.set("job-1", done=2, run=complete)
    at.run()
    assert kinds(at) == ["measured", "measured"]
    assert "Measured here" in words(at)
    assert at.main.get("vega_lite_chart")[0].proto.spec == before
    assert len(at.main.get("dataframe")[0].value) == 2


@pytest.mark.parametrize(
    ("state", "words_shown"),
    [
        ("cancelled", "Cancelled."),
        ("crashed", "The measuring process ended unexpectedly."),
        ("out_of_memory", "The machine ran out of memory"),
        ("refused", "Not measured."),
    ],
)
def test_however_a_job_ends_its_points_stay(queue: StubQueue, state: str, words_shown: str) -> None:
    at = pressed(queue)
    kept = memory_run(memory_point(), status=state)
    queue.set("job-1", state=state, place=0, run=kept, seconds_running=3.0)
    at.run()
    assert words_shown in words(at)
    assert "The 1 point finished before that is kept." in words(at)
    assert kinds(at) == ["measured"]
    assert not at.main.button(key="measure_score_tensor").disabled


def test_cancel_ends_the_readers_own_job(queue: StubQueue) -> None:
    at = pressed(queue)
    at.main.button(key="cancel_score_tensor").click().run()
    assert queue.view("job-1").state == "cancelled"
    assert "Cancelled." in words(at)


def test_a_full_queue_is_said(queue: StubQueue) -> None:
    queue.full = True
    at = pressed(queue)
    assert at.warning[0].value == f"Not measured: {REFUSAL}."
    at.run()
    assert not at.warning


def test_the_same_measurement_of_another_reader_is_watched_but_not_cancelled(queue: StubQueue) -> None:
    spec = pressed(queue).main and queue.view("job-1").spec
    queue.set("job-1", state="running", place=0, run=memory_run(memory_point(), status="running"))
    other = open_page("score_tensor")
    assert kinds(other) == ["measured"]
    assert "Started from another window" in words(other)
    assert [button.key for button in other.main.button if button.key == "cancel_score_tensor"] == []
    assert spec == queue.view("job-1").spec
    assert kinds(open_page("score_tensor", batch=2)) == []


def test_anybody_cancels_a_measurement_whose_window_is_closed(
    queue: StubQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    pressed(queue)
    queue.set("job-1", state="running", place=0)
    monkeypatch.setattr(owners.Owners, "gone", lambda self, job_id: True)
    other = open_page("score_tensor")
    assert "window that started this is closed" in words(other)
    other.main.button(key="cancel_score_tensor").click().run()
    assert faults(other) == []
    assert queue.view("job-1").state == "cancelled"
    assert "Cancelled." in words(other)


def test_refused_points_are_hollow_with_need_and_have(queue: StubQueue) -> None:
    at = pressed(queue)
    refused = memory_point(
        status="refused", kernel=None, peak_extra_bytes=None, max_abs_error=None, need_bytes=12 * 2**30,
        have_bytes=8 * 2**30, kv_len=16384, q_len=16384, reason="too large",
    )  # fmt: skip
    queue.set(
        "job-1", state="finished", place=0, run=memory_run(memory_point(), refused), seconds_running=9.0
    )
    at.run()
    assert sorted(kinds(at)) == ["measured", "refused"]
    assert "refused: needs 12 GiB, 8 GiB free" in list(at.main.get("dataframe")[0].value["verdict"])
    assert "2 points, 1 accepted" in words(at)


def test_pressing_measure_on_kv_cache_turns_to_time(queue: StubQueue) -> None:
    at = open_page("kv_cache")
    assert at.main.selectbox(key="kv_cache_shown").value == "bytes"
    at.main.button(key="measure_kv_cache").click().run()
    assert at.main.selectbox(key="kv_cache_shown").value == "here"
    done = run(
        point(experiment="decode", implementation="sdpa", q_len=1, kv_len=1024, batch=16, dtype="bf16"),
        experiment="decode", environment={"device_kind": "cpu"},
        ceilings={"flops_per_s": 1e11, "copy_bytes_per_s": 2e10, "how": "probe"},
    )  # fmt: skip
    queue.set("job-1", state="finished", place=0, run=done, seconds_running=5.0)
    at.run()
    assert kinds(at) == ["measured"]
    assert {row["series"] for row in chart(at)[1]["lines"]} == {"batch_1", "batch_16"}
