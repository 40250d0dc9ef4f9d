"""Repeated jobs: processes in turn time every cell anew; however one ends, what the others timed stays."""

import sys
from pathlib import Path

import pytest

from lab import runs
from lab.measure.execution import execute
from lab.measure.plan import processes_of
from lab.runs import JobSpec

FAKE = (sys.executable, str(Path(__file__).with_name("fake_worker.py")))
FINE, THIRD_DIES = 101, 112


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    return tmp_path


def test_repeats_are_processes_whose_samples_join_and_memory_is_counted_once() -> None:
    events: list[dict] = []
    repeated = JobSpec("scaling", lengths=(FINE,), repeats=3)
    run = execute(repeated, lambda event, _: events.append(event), FAKE)
    assert run.status == "finished"
    assert all(point.accepted for point in run.points)
    assert [len(point.timing.repeats) for point in run.points] == [3, 3]
    assert {point.peak_extra_bytes for point in run.points} == {8}
    assert runs.load(run.run_id) == run
    progress = [
        (event["done"], event["total"], event["what"]) for event in events if event["event"] == "progress"
    ]
    assert progress[0] == (0, 8, "process 1 of 3: naive at T = 1")
    assert progress[3] == (4, 8, "process 2 of 3: done")
    assert progress[-1] == (8, 8, "done")


def test_a_process_that_dies_leaves_what_the_ones_before_it_timed() -> None:
    died = JobSpec("scaling", lengths=(THIRD_DIES,), repeats=3)
    run = execute(died, None, FAKE)
    assert run.status == "crashed"
    assert [len(point.timing.repeats) for point in run.points] == [3, 2]  # the first was told before the end


def test_what_times_no_cells_is_done_once_and_says_so() -> None:
    run = execute(JobSpec("memory", lengths=(FINE,), repeats=3), None, FAKE)
    assert run.warnings == ("repeats is 3, but memory times no cells: one process did it all.",)
    assert [point.timing for point in run.points] == [None, None]


@pytest.mark.parametrize(
    ("experiment", "processes"),
    [
        ("scaling", ("time", "time", "memory")),
        ("all", ("time", "time", "memory")),
        ("calibrate", ("time",)),
        ("backends", ("memory",)),
    ],
)
def test_only_times_are_repeated(experiment: str, processes: tuple[str, ...]) -> None:
    assert processes_of(JobSpec(experiment, repeats=2)) == processes
