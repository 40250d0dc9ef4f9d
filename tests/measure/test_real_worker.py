"""Jobs with the real worker: points from PyTorch, and an end from outside in every phase keeps what is finished."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import runs
from lab.measure.execution import CANCELLED, Event, Execution, execute
from lab.measure.jobs import Jobs
from lab.runs import JobSpec, Run

SHAPE = {"heads": 2, "kv_heads": 2, "head_dim": 16, "dtype": "fp32", "rounds": 3, "threads": 1}
PHASES = ("loading PyTorch", "first call, error, kernel", "warming up", "round", "ceilings")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    return tmp_path


def spec(experiment: str = "scaling", **changes: object) -> JobSpec:
    return JobSpec(
        experiment, **{**SHAPE, "lengths": (32, 64), "implementations": ("naive", "flash"), **changes}
    )


def wait_until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def test_two_parts_of_the_real_worker_make_accepted_points_with_kernels() -> None:
    run = execute(spec())
    assert (run.status, run.message) == ("finished", None)
    assert [point.kv_len for point in run.points] == [32, 32, 64, 64]
    assert all(point.accepted for point in run.points), [point.reason for point in run.points]
    assert {point.kernel is not None for point in run.points} == {True}
    assert run.ceilings is not None
    assert run.environment["threads"] == 1
    assert runs.load(run.run_id) == run


@pytest.mark.parametrize("phase", PHASES)
def test_cancelling_in_any_phase_keeps_the_points_so_far(phase: str) -> None:
    points_then: list[int] = []

    def cancel_there(event: Event, run: Run) -> None:
        if phase in str(event.get("what", "")) and not points_then:
            points_then.append(len(run.points))
            threading.Thread(target=job.cancel).start()

    job = Execution(spec(lengths=(32, 2048)), cancel_there)
    run = job.execute()
    assert points_then, "the phase was never told"
    assert (run.status, run.message) == ("cancelled", CANCELLED)
    assert len(run.points) >= points_then[0]
    assert runs.load(run.run_id) == run


@pytest.mark.parametrize(
    ("number", "words"), [(signal.SIGKILL, r"ended from outside (SIGKILL)"), (signal.SIGTERM, "from outside")]
)
def test_a_worker_killed_from_outside_leaves_its_points_and_the_queue_goes_on(
    number: int, words: str
) -> None:
    jobs = Jobs()
    job = jobs.submit(spec(lengths=(32, 8192), heads=12, kv_heads=12))
    after = jobs.submit(spec("memory", lengths=(32,)))
    wait_until(lambda: jobs.view(job).run is not None and len(jobs.view(job).run.points) == 2)
    os.kill(jobs.view(job).worker_pid, number)
    wait_until(lambda: jobs.view(after).state not in ("queued", "running"))
    killed = jobs.view(job)
    assert (killed.state, jobs.view(after).state) == ("crashed", "finished")
    assert words in str(killed.message)
    assert len(killed.run.points) == 2
    assert runs.load(killed.run.run_id) == killed.run


def test_a_job_that_cannot_be_is_refused_with_the_devices_own_words() -> None:
    run = execute(spec(device="cuda:99"))
    assert run.status == "refused"
    assert "cuda" in str(run.message)
    assert run.points == ()


def test_no_file_of_a_real_run_names_host_user_or_path(home: Path) -> None:
    run = execute(spec("memory", lengths=(32,)))
    text = (home / "runs" / f"{run.run_id}.json").read_text(encoding="utf-8")
    for word in (os.uname().nodename, str(Path.home()), str(home), "site-packages", "/usr/", "/proc/"):
        assert f'"{word}' not in text
        assert f" {word}" not in text
