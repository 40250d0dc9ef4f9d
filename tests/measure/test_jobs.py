"""Jobs: parts join, the queue is first come first served, and however a child ends, finished points stay."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import runs
from lab.measure import child as child_module
from lab.measure import execution
from lab.measure import jobs as jobs_module
from lab.measure.execution import Execution, execute
from lab.measure.jobs import Jobs
from lab.runs import JobSpec

FAKE = (sys.executable, str(Path(__file__).with_name("fake_worker.py")))
FINE, SLOW, FAILS, DIES, BABBLES, SILENT, REFUSES, DEAF, STOPPED, STRANGE, FAULT = range(101, 112)


def spec(mood: int, experiment: str = "scaling") -> JobSpec:
    return JobSpec(experiment, lengths=(mood,))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    return tmp_path


def wait_until(true: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def test_time_and_memory_parts_join_to_accepted_points() -> None:
    events: list[dict] = []
    run = execute(spec(FINE), lambda event, _: events.append(event), FAKE)
    assert run.status == "finished"
    assert [point.kv_len for point in run.points] == [1, 2]
    assert all(point.accepted for point in run.points)
    assert runs.load(run.run_id) == run
    assert run.device_key == "cpu: fake"
    progress = [(event["done"], event["total"]) for event in events if event["event"] == "progress"]
    assert progress == [(0, 4), (2, 4), (2, 4), (4, 4)]
    assert events[-1]["event"] == "end"


def test_a_memory_experiment_has_one_part() -> None:
    run = execute(spec(FINE, "memory"), None, FAKE)
    assert [point.timing for point in run.points] == [None, None]


@pytest.mark.parametrize(
    ("mood", "status", "words"),
    [
        (FAILS, "crashed", r"exit code 7: File worker\.py broke"),
        (DIES, "crashed", r"ended from outside \(SIGKILL\) \(at: naive at T = 1\)\.$"),
        (FAULT, "crashed", r"broke down \(SIGSEGV\)"),
        (STOPPED, "crashed", "asked to end from outside"),
        (STRANGE, "crashed", "ended as 'transcended', which is not known"),
        (SILENT, "crashed", "ended without a word"),
        (REFUSES, "refused", "computes in fp32"),
    ],
)
def test_however_a_child_ends_its_points_are_kept_and_the_reason_is_a_sentence(
    mood: int, status: str, words: str
) -> None:
    run = execute(spec(mood), None, FAKE)
    assert run.status == status
    assert run.message is not None
    assert re.search(words, run.message)
    assert "/" not in run.message
    assert len(run.points) == 1
    assert runs.load(run.run_id) == run


def test_a_kill_with_a_rise_of_the_kernels_count_is_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter((3, 4))
    monkeypatch.setattr(child_module, "oom_kills", lambda: next(counts))
    run = execute(spec(DIES), None, FAKE)
    assert run.status == "out_of_memory"
    assert "memory ran out" in str(run.message)


def test_words_that_are_no_events_do_not_disturb() -> None:
    run = execute(spec(BABBLES), None, FAKE)
    assert run.status == "finished"
    assert [point.accepted for point in run.points] == [True, True]
    assert any("not understood" in warning for warning in run.warnings)


@pytest.mark.parametrize("mood", [SLOW, DEAF])
def test_cancelling_keeps_what_is_finished(mood: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "GRACE_S", 0.3)
    seen = threading.Event()
    job = Execution(spec(mood), lambda event, _: event["event"] == "point" and seen.set(), FAKE)
    thread = threading.Thread(target=job.execute)
    thread.start()
    assert seen.wait(20)
    job.cancel()
    thread.join(10)
    assert not thread.is_alive()
    assert job.run.status == "cancelled"
    assert len(job.run.points) == 1
    assert runs.load(job.run.run_id) == job.run


def test_cancelling_before_the_start_measures_nothing() -> None:
    job = Execution(spec(FINE), None, FAKE)
    job.cancel()
    run = job.execute()
    assert (run.status, run.points) == ("cancelled", ())


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), OSError(30, "Read-only file system")]
)
def test_a_run_that_cannot_be_saved_goes_on_in_memory_and_says_so(
    error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: runs.Run) -> None:
        raise error

    monkeypatch.setattr(execution, "save", refuse)
    run = execute(spec(FINE), None, FAKE)
    assert run.status == "finished"
    assert all(point.accepted for point in run.points)
    assert [warning for warning in run.warnings if str(error.strerror) in warning]


def test_a_data_folder_that_is_a_file_does_not_stop_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("LAB_HOME", str(blocked))
    run = execute(spec(FINE), None, FAKE)
    assert run.status == "finished"
    assert any("could not be saved" in warning for warning in run.warnings)


def test_a_worker_that_cannot_be_started_is_a_crash_in_words() -> None:
    run = execute(spec(FINE), None, ("/nonexistent/python",))
    assert run.status == "crashed"
    assert "could not be started" in str(run.message)


def test_without_torch_measuring_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution.importlib.util, "find_spec", lambda name: None)
    run = execute(spec(FINE))
    assert run.status == "refused"
    assert "PyTorch is not installed" in str(run.message)
    assert execute(spec(FINE), None, FAKE).status == "finished"


@pytest.mark.parametrize("mood", [SLOW, DEAF])
def test_a_listener_that_fails_ends_the_child_and_keeps_its_points(
    mood: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_module, "GRACE_S", 0.3)
    pids: list[int | None] = []

    def closed_pipe(event: dict, _: runs.Run) -> None:
        if event["event"] == "point":
            pids.append(job.worker_pid)
            raise BrokenPipeError(32, "Broken pipe")

    job = Execution(spec(mood), closed_pipe, FAKE)
    with pytest.raises(BrokenPipeError):
        job.execute()
    assert not alive(pids[0] or 0)
    (kept,) = runs.list_runs()
    assert (kept.status, len(kept.points)) == ("cancelled", 1)


def test_the_queue_is_first_come_first_served_and_survives_a_crash() -> None:
    jobs = Jobs(FAKE)
    first, second, third = (jobs.submit(spec(mood)) for mood in (DIES, FINE, FINE))
    wait_until(lambda: jobs.view(third).state == "finished")
    assert jobs.view(first).state == "crashed"
    assert jobs.view(second).state == "finished"
    ends = [jobs.view(job).run.finished_utc for job in (first, second, third)]
    assert ends == sorted(ends)


def test_a_waiting_job_knows_its_place_and_can_be_cancelled() -> None:
    jobs = Jobs(FAKE)
    running, waiting, last = (jobs.submit(spec(mood)) for mood in (SLOW, FINE, FINE))
    wait_until(lambda: jobs.view(running).run is not None and len(jobs.view(running).run.points) == 1)
    assert [jobs.view(job).place for job in (running, waiting, last)] == [0, 1, 2]
    assert jobs.view(running).what == "naive at T = 1"
    jobs.cancel(waiting)
    assert jobs.view(waiting).state == "cancelled"
    assert jobs.view(last).place == 1
    jobs.cancel(running)
    wait_until(lambda: jobs.view(last).state == "finished")
    assert jobs.view(running).state == "cancelled"
    assert len(jobs.view(running).run.points) == 1


def test_killing_the_measuring_process_from_outside_ends_only_its_job() -> None:
    jobs = Jobs(FAKE)
    job, after = jobs.submit(spec(SLOW)), jobs.submit(spec(FINE))
    wait_until(lambda: jobs.view(job).run is not None and len(jobs.view(job).run.points) == 1)
    os.kill(jobs.view(job).worker_pid, signal.SIGKILL)
    wait_until(lambda: jobs.view(after).state == "finished")
    assert jobs.view(job).state == "crashed"
    assert "SIGKILL" in jobs.view(job).message
    assert len(jobs.view(job).run.points) == 1


def test_too_many_waiting_jobs_are_refused_in_a_sentence() -> None:
    jobs = Jobs(FAKE)
    running = jobs.submit(spec(SLOW))
    wait_until(lambda: jobs.view(running).state == "running")
    for _ in range(50):
        jobs.submit(spec(FINE))
    with pytest.raises(ValueError, match="50 measurements are waiting already"):
        jobs.submit(spec(FINE))
    for view in jobs.views():
        jobs.cancel(view.id)


def test_ended_jobs_are_forgotten_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module, "MAX_ENDED", 1)
    jobs = Jobs(FAKE)
    names = []
    for _ in range(3):
        names.append(jobs.submit(spec(SILENT)))
        wait_until(lambda: jobs.view(names[-1]).state == "crashed")
    assert [view.id for view in jobs.views()] == names[1:]


def test_a_second_process_waits_for_its_turn() -> None:
    told: list[str] = []
    first = Execution(spec(SLOW), None, FAKE)
    thread = threading.Thread(target=first.execute)
    thread.start()
    wait_until(lambda: first.worker_pid is not None)
    second = Execution(spec(FINE), lambda event, _: told.append(str(event.get("what"))), FAKE)
    other = threading.Thread(target=second.execute)
    other.start()
    wait_until(lambda: any("waiting for another measurement" in what for what in told))
    assert second.worker_pid is None
    first.cancel()
    thread.join(10)
    other.join(20)
    assert (first.run.status, second.run.status) == ("cancelled", "finished")


def test_a_child_does_not_outlive_its_parent_and_the_run_then_reads_as_crashed() -> None:
    program = (
        "from lab.measure.execution import execute; from lab.runs import JobSpec; "
        f"execute(JobSpec('scaling', lengths=({SLOW},)), "
        "lambda e, r: e['event'] == 'point' and print(r.environment['pid'], flush=True), "
        f"{FAKE!r})"
    )
    root = Path(__file__).parents[2]
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert [run.status for run in runs.list_runs()] == ["running"]
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not alive(pid))
    (kept,) = runs.list_runs()
    assert (kept.status, len(kept.points)) == ("crashed", 1)
    assert "The program ended before the measurement did" in str(kept.message)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_no_run_file_holds_a_path_of_this_machine(home: Path) -> None:
    execute(spec(FAILS), None, FAKE)
    (file,) = (home / "runs").iterdir()
    text = file.read_text(encoding="utf-8")
    json.loads(text)
    assert "somebody" not in text
    assert str(home) not in text
