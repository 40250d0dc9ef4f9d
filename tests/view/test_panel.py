"""The measure panel in every state a job can be in, without measuring anything."""

from collections.abc import Callable
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from lab import runs
from lab.measure import jobs
from lab.measure.jobs import JobView
from lab.runs import JobSpec
from lab.view import measure_panel, owners, shown_runs
from tests.view.pages import chart, faults, go, open_page, words
from tests.view.points_of import point, run

REFUSAL = "50 measurements are waiting already; try again when some have ended"


class StubQueue:
    """Stands in for the server's queue: keeps what was submitted, in the state that the test sets."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobView] = {}
        self.full = False

    def submit(self, spec: JobSpec) -> str:
        if self.full:
            raise ValueError(REFUSAL)
        return self.add(spec)

    def add(self, spec: JobSpec, **changes: Any) -> str:
        job_id = f"job-{len(self.jobs) + 1}"
        state: dict[str, Any] = {
            "state": "queued", "place": 2, "done": 0, "total": 0, "what": "", "run": None, "message": None,
            "seconds_running": 0.0, "worker_pid": None,
        }  # fmt: skip
        self.jobs[job_id] = JobView(id=job_id, spec=spec, **{**state, **changes})
        return job_id

    def set(self, job_id: str, **changes: Any) -> None:
        view = self.jobs[job_id]
        self.jobs[job_id] = JobView(
            **{name: getattr(view, name) for name in view.__dataclass_fields__} | changes
        )

    def view(self, job_id: str) -> JobView:
        return self.jobs[job_id]

    def views(self) -> tuple[JobView, ...]:
        return tuple(self.jobs.values())

    def cancel(self, job_id: str) -> None:
        self.set(job_id, state="cancelled", place=0)


@pytest.fixture(autouse=True)
def queue(monkeypatch: pytest.MonkeyPatch) -> StubQueue:
    monkeypatch.setattr(jobs, "machine", lambda: None)
    stub = StubQueue()
    monkeypatch.setattr(measure_panel, "registry", lambda: stub)
    return stub


def memory_run(*points: Any, **changes: Any) -> runs.Run:
    return run(*points, experiment="memory", **{"environment": {"device_kind": "cpu"}, **changes})


def memory_point(**changes: Any) -> runs.Point:
    return point(experiment="memory", timing=None, **changes)


def pressed(queue: StubQueue) -> AppTest:
    at = open_page("score_tensor")
    at.main.button(key="measure_score_tensor").click().run()
    assert faults(at) == []
    return at


def progress(at: AppTest) -> str:
    return at.main.get("progress")[0].proto.text


def kinds(at: AppTest) -> list[str]:
    return [row["kind"] for row in chart(at)[1]["points"] if row["kind"] != "recorded"]


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


def test_the_last_run_of_this_device_is_shown_on_return() -> None:
    runs.save(memory_run(memory_point(), status="finished"))
    at = open_page("score_tensor")
    assert kinds(at) == ["measured"]
    at = go(go(at, "kv_cache"), "score_tensor")
    assert kinds(at) == ["measured"]


def test_a_whole_run_is_shown_in_place_of_a_newer_one_that_was_cancelled(queue: StubQueue) -> None:
    both = [memory_point(), memory_point(implementation="math")]
    runs.save(memory_run(*both, status="finished"))
    at = pressed(queue)
    queue.set("job-1", state="cancelled", place=0, run=memory_run(memory_point(), status="cancelled"))
    at.run()
    assert kinds(at) == ["measured", "measured"]


def test_a_cancelled_run_of_which_the_whole_one_holds_nothing_keeps_its_place(queue: StubQueue) -> None:
    runs.save(memory_run(memory_point(), memory_point(implementation="math"), status="finished"))
    cancelled = memory_run(memory_point(batch=2), run_id="9-newer", status="cancelled")
    at = open_page("score_tensor", batch=2)
    at.main.button(key="measure_score_tensor").click().run()
    queue.set("job-1", state="cancelled", place=0, run=cancelled)
    at.run()
    assert kinds(at) == ["measured"]
    runs.save(cancelled)
    assert kinds(open_page("score_tensor", batch=2)) == ["measured"]
    assert kinds(open_page("score_tensor")) == ["measured", "measured"]


def test_a_job_that_ends_while_the_page_is_drawn_takes_its_button_along(
    queue: StubQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = pressed(queue)
    assert at.main.button(key="cancel_score_tensor")
    drawn = measure_panel.Panel.controls

    def then_ended(panel: measure_panel.Panel) -> None:
        drawn(panel)
        queue.cancel("job-1")

    monkeypatch.setattr(measure_panel.Panel, "controls", then_ended)
    at.run()
    assert "Cancelled." in words(at)
    assert "cancel_score_tensor" not in [button.key for button in at.main.button]


def test_a_number_type_left_open_is_that_of_any_point() -> None:
    spec = JobSpec("accuracy", device="cpu", dtype="auto", heads=12, kv_heads=12, head_dim=64)
    cpu = {"environment": {"device_kind": "cpu"}, "experiment": "accuracy", "status": "finished"}
    runs.save(run(point(experiment="accuracy", dtype="fp32"), run_id="1-alike", **cpu))
    runs.save(run(point(experiment="accuracy", heads=32, kv_heads=32), run_id="2-newer", **cpu))
    shown = shown_runs.shown_run(spec)
    assert shown is not None
    assert shown.run_id == "1-alike"


def test_a_chart_that_is_redrawn_offers_no_files_whatever_another_panel_says(
    queue: StubQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies: list[Callable[[], None]] = []
    held = []
    monkeypatch.setattr(
        measure_panel.st, "fragment", lambda run_every: lambda body: bodies.append(body) or body
    )
    monkeypatch.setattr(measure_panel.downloads, "hold", held.append)
    specs = [JobSpec("memory", device="cpu"), JobSpec("scaling", device="cpu")]
    queue.add(specs[0], state="running")
    seen = []
    for spec in specs:
        measure_panel.Panel("score_tensor", spec, binary=True).live(lambda shown: seen.append(held[-1]))
    bodies[0]()  # as its fragment does on its own, after the whole page was drawn
    assert seen == [True, False, True]


def test_while_a_calibration_runs_its_chart_offers_no_files(queue: StubQueue) -> None:
    at = open_page("roofline")
    assert "Ready as soon as the measurement has ended." not in words(at)
    at.main.button(key="measure_roofline").click().run()
    assert faults(at) == []
    assert "Ready as soon as the measurement has ended." in words(at)


def test_sentences_are_computed_from_points_once_the_job_has_ended(
    queue: StubQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[runs.Run] = []
    monkeypatch.setattr(measure_panel, "reading", lambda found: read.append(found) or {"memory": ["Said."]})
    at = pressed(queue)
    partial = memory_run(memory_point(), status="running")
    queue.set("job-1", state="running", place=0, done=1, total=12, run=partial)
    at.run()
    assert kinds(at) == ["measured"]
    assert read == []
    queue.set("job-1", state="finished", place=0, run=partial)
    at.run()
    assert "- Said." in words(at)


def test_a_new_run_of_another_program_is_seen() -> None:
    at = open_page("score_tensor")
    assert kinds(at) == []
    runs.save(memory_run(memory_point(), status="finished"))
    at.run()
    assert kinds(at) == ["measured"]


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
