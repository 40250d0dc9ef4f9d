"""Which run a measure panel shows, and what it offers of it, without measuring anything."""

from collections.abc import Callable

import pytest

from lab import runs
from lab.runs import JobSpec
from lab.view import measure_panel, shown_runs
from tests.view.pages import faults, go, open_page, words
from tests.view.points_of import point, run
from tests.view.stub_queue import StubQueue, kinds, memory_point, memory_run, pressed

pytestmark = pytest.mark.usefixtures("queue")


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


def test_a_scaling_run_stands_on_start_here_as_the_self_test_would() -> None:
    timed = point(experiment="scaling", implementation="naive", dtype="bf16")
    runs.save(run(timed, experiment="all", environment={"device_kind": "cpu"}, status="finished"))
    at = open_page("start_here", dtype="bf16", device="cpu")
    assert kinds(at) == ["measured"]
    assert "Nothing of this kind" not in words(at)


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


def test_while_a_calibration_runs_the_roofs_headline_does_not_ask_for_one(queue: StubQueue) -> None:
    at = open_page("roofline", roofline_device="here", device="cpu")
    assert "press Measure to calibrate it" in words(at)
    at.main.button(key="measure_roofline").click().run()
    assert "press Measure to calibrate it" not in words(at)
    assert "is being calibrated" in words(at)


def test_noisy_steps_make_the_headline_say_that_it_is_not_of_them() -> None:
    steps = [
        point(experiment="decode", implementation="sdpa", q_len=1, kv_len=1024, batch=batch, dtype="bf16",
              status="noisy", reason="the machine was busy")
        for batch in (1, 16)
    ]  # fmt: skip
    limits = {"flops_per_s": 1e11, "copy_bytes_per_s": 2e10, "how": "probe"}
    kept = run(
        *steps, experiment="decode", environment={"device_kind": "cpu"}, status="finished", ceilings=limits
    )
    runs.save(kept)
    at = open_page("kv_cache", kv_cache_shown="here", device="cpu", dtype="bf16")
    assert "takes at least" in at.main.get("subheader")[0].value
    assert "too busy to say" in at.main.get("subheader")[0].value
