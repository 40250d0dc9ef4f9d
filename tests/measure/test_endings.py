"""However a measurement ends, what was finished stays readable and a sentence says why: real ends, not faked errors."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lab import runs
from lab.measure import allocator
from lab.measure.execution import CANCELLED, Event, Execution, execute
from lab.measure.jobs import Jobs
from lab.runs import JobSpec, Run

ROOT = Path(__file__).resolve().parents[2]
FAKE = str(Path(__file__).with_name("fake_worker.py"))
FINE = 101

# Says its environment, one point in each part, and then waits in the phase that stands first in `lengths`.
WAITS = """
import json, sys, time
spec, part = json.loads(sys.stdin.readline()), sys.argv[-1]
phase = {1: "environment", 2: "time", 3: "memory"}[spec["lengths"][0]]
def say(**event): print(json.dumps(event), flush=True)
def reached(name):
    say(event="progress", done=0, total=1, what=name)
    if name == phase: time.sleep(60)
point = {"experiment": "scaling", "implementation": "naive", "status": "ok", "batch": 1, "heads": 1, "kv_heads": 1,
         "q_len": 8, "kv_len": 8, "head_dim": 8, "dtype": "fp32", "causal": True, "kernel": "fake",
         "max_abs_error": 0.0, "tolerance": 1.0}
if part == "time": reached("environment")
say(event="environment", environment={"device_kind": "cpu", "device_name": "fake"})
say(event="point", point=point | ({"timing": {"median_s": 1e-3}} if part == "time" else {"peak_extra_bytes": 8}))
reached(part)
say(event="end", status="finished", message=None)
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def cancelled_at(phase: str, number: int) -> Run:
    def cancel_there(event: Event, _: Run) -> None:
        if event.get("what") == phase:
            threading.Thread(target=job.cancel).start()

    job = Execution(JobSpec("scaling", lengths=(number,)), cancel_there, (sys.executable, "-c", WAITS))
    return job.execute()


@pytest.mark.parametrize(
    ("phase", "number", "timed", "weighed"),
    [("environment", 1, 0, 0), ("time", 2, 1, 0), ("memory", 3, 1, 1)],
)
def test_cancelled_in_each_phase_the_run_reads_back_with_its_points(
    phase: str, number: int, timed: int, weighed: int
) -> None:
    run = cancelled_at(phase, number)
    assert (run.status, run.message) == ("cancelled", CANCELLED)
    assert sum(point.timing is not None for point in run.points) == timed
    assert sum(point.peak_extra_bytes is not None for point in run.points) == weighed
    assert runs.load(run.run_id) == run


def test_cancelled_while_another_process_measures_the_run_reads_back_empty() -> None:
    waits = (sys.executable, "-c", WAITS)
    started, waiting = threading.Event(), threading.Event()
    first = Execution(JobSpec("scaling", lengths=(1,)), lambda *_: started.set(), waits)
    second = Execution(JobSpec("scaling", lengths=(2,)), lambda *_: waiting.set(), waits)
    threads = [threading.Thread(target=job.execute) for job in (first, second)]
    threads[0].start()
    assert started.wait(20)
    threads[1].start()
    assert waiting.wait(20)
    second.cancel()
    threads[1].join(20)
    assert first.run.status == "running"
    assert (second.run.status, second.run.message, second.run.points) == ("cancelled", CANCELLED, ())
    assert runs.load(second.run.run_id) == second.run
    first.cancel()
    threads[0].join(20)


def test_cancelled_in_the_queue_nothing_is_started_and_the_state_says_so() -> None:
    jobs = Jobs((sys.executable, "-c", WAITS))
    running, queued = (jobs.submit(JobSpec("scaling", lengths=(1,))) for _ in range(2))
    jobs.cancel(queued)
    assert (jobs.view(queued).state, jobs.view(queued).run) == ("cancelled", None)
    end = time.monotonic() + 20
    while jobs.view(running).state != "cancelled":
        assert time.monotonic() < end
        jobs.cancel(running)
        time.sleep(0.05)


LIMITED = (
    "import sys; from lab.measure import allocator, worker; limit = allocator.limit_memory; "
    f"allocator.limit_memory = lambda free: limit({200 * 2**20}); sys.exit(worker.main())"
)


def test_a_real_shortage_of_memory_leaves_a_run_with_the_other_points() -> None:
    if allocator.host.process_data_bytes() is None:
        pytest.skip("this system has no limit on a process's data")
    wanted = JobSpec(
        "memory", device="cpu", dtype="fp32", lengths=(64, 4096), heads=4, kv_heads=4,
        implementations=("naive", "flash"), threads=1,
    )  # fmt: skip
    run = execute(wanted, None, (sys.executable, "-c", LIMITED))
    status = {(point.implementation, point.kv_len): point.status for point in run.points}
    assert run.status == "finished"
    assert status.pop(("naive", 4096)) == "out_of_memory"
    assert set(status.values()) == {"ok"}
    reasons = [point.reason for point in run.points if point.status == "out_of_memory"]
    assert "can't allocate memory" in str(reasons[0])
    assert "\n" not in str(reasons[0])
    assert runs.load(run.run_id) == run


FULL = f"""
import json, resource, sys
from lab.measure.execution import execute
from lab.runs import JobSpec
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
run = execute(JobSpec("scaling", lengths=({FINE},)), None, (sys.executable, {FAKE!r}))
print(json.dumps([run.run_id, run.status, run.warnings, sum(point.accepted for point in run.points)]))
"""


def test_where_no_more_can_be_written_the_file_keeps_what_fitted_and_the_run_says_so() -> None:
    pytest.importorskip("resource", reason="this system limits no file's size")
    whole = len(
        runs.to_text(execute(JobSpec("scaling", lengths=(FINE,)), None, (sys.executable, FAKE))).encode()
    )
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(whole - 200)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    name, status, warnings, accepted = json.loads(done.stdout)
    assert (status, accepted) == ("finished", 2)
    assert [text for text in warnings if "could not be saved (File too large)" in text]
    kept = runs.load(name)
    assert len(kept.points) >= 1
    assert kept.status == "crashed"  # the file never heard of the end
    assert "the points finished until then are here" in str(kept.message)


def test_a_data_folder_that_nobody_may_write_does_not_stop_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/sys/kernel").is_dir():
        pytest.skip("this system has no folder that even its owner cannot write")
    monkeypatch.setenv("LAB_HOME", "/sys/kernel/attention-cost-lab")
    run = execute(JobSpec("scaling", lengths=(FINE,)), None, (sys.executable, FAKE))
    assert run.status == "finished"
    assert [point.accepted for point in run.points] == [True, True]
    assert [text for text in run.warnings if "could not be saved" in text]
    assert runs.list_runs() == ()
