"""The child process end to end: its lines, how it is cancelled, how it ends with its parent."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.runs import Point, default_spec

ROOT = Path(__file__).parents[2]
LONG_S = 120


def strict(line: str) -> dict:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no strict JSON")

    return json.loads(line, parse_constant=refuse)


def spec_line(experiment: str, **changes: object) -> str:
    return (
        json.dumps(default_spec(experiment, **{"device": "cpu", "dtype": "fp32", **changes}).to_dict()) + "\n"
    )


def start(part: str, line: str) -> subprocess.Popen:
    child = subprocess.Popen(
        [sys.executable, "-m", "lab.measure.worker", "--part", part],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    child.stdin.write(line)
    child.stdin.flush()
    return child


def finish(child: subprocess.Popen) -> list[dict]:
    """Read to the end, with standard input left open as a living parent does."""
    events = [strict(line) for line in child.stdout]
    child.wait(LONG_S)
    child.stdin.close()
    return events


def until(child: subprocess.Popen, what: str) -> dict:
    return next(event for line in child.stdout if (event := strict(line))["event"] == what)


def test_the_time_part_tells_environment_plan_points_ceilings_end() -> None:
    two = ("naive", "sdpa")
    child = start("time", spec_line("scaling", lengths=(64, 32), rounds=2, implementations=two))
    events = finish(child)
    assert child.returncode == 0, child.stderr.read()[-2000:]
    kinds = [event["event"] for event in events if event["event"] != "progress"]
    assert kinds == ["environment", "plan", *["point"] * 4, "ceilings", "end"]
    assert events[-1] == {"event": "end", "status": "finished", "message": None}
    points = [Point.from_dict(event["point"]) for event in events if event["event"] == "point"]
    assert [point.kv_len for point in points] == [32, 32, 64, 64]
    assert all(point.timing.n == 2 and point.kernel for point in points)
    progress = [event for event in events if event["event"] == "progress"]
    assert progress[0]["what"] == "loading PyTorch"
    assert [event["done"] for event in progress] == sorted(event["done"] for event in progress)
    assert progress[-1]["done"] == progress[-1]["total"] == 4


def test_the_memory_part_tells_peaks() -> None:
    child = start("memory", spec_line("memory", lengths=(64,)))
    points = [Point.from_dict(event["point"]) for event in finish(child) if event["event"] == "point"]
    assert child.returncode == 0
    assert all(point.accepted for point in points)
    assert {point.implementation for point in points} == {"naive", "math", "flash"}


def test_the_environment_part_measures_nothing() -> None:
    child = start("environment", spec_line("selftest"))
    events = [event for event in finish(child) if event["event"] != "progress"]
    assert [event["event"] for event in events] == ["environment", "end"]
    environment = events[0]["environment"]
    assert environment["device_kind"] == "cpu"
    assert environment["free_bytes"] > 0


@pytest.mark.skipif(not hasattr(signal, "sigwait"), reason="this system ends a process without asking it")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_cancels_even_while_a_long_call_runs(number: int) -> None:
    child = start("time", spec_line("scaling", lengths=(64, 8192), implementations=("flash",)))
    until(child, "point")  # the small length is done, the large one under way
    child.send_signal(number)
    events = finish(child)
    assert events[-1] == {"event": "end", "status": "cancelled", "message": None}
    assert child.returncode == 143


@pytest.mark.skipif(not hasattr(signal, "sigwait"), reason="this system ends a process without asking it")
def test_a_signal_cancels_while_pytorch_is_loading() -> None:
    child = start("time", spec_line("scaling"))
    until(child, "progress")
    child.terminate()
    assert finish(child)[-1]["status"] == "cancelled"


def test_the_end_of_its_input_ends_the_child() -> None:
    child = start("time", spec_line("scaling", lengths=(64, 8192), implementations=("flash",)))
    until(child, "point")
    child.stdin.close()
    assert child.wait(LONG_S) == 1
    assert "finished" not in child.stdout.read()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (spec_line("memory").replace('"memory"', '"nonsense"'), "experiment is 'nonsense'"),
        (spec_line("memory", device="xpu:77"), "device is 'xpu:77', but"),
    ],
)
def test_a_job_that_cannot_be_is_refused(line: str, message: str) -> None:
    child = start("memory", line)
    events = finish(child)
    assert events[-1]["status"] == "refused"
    assert events[-1]["message"].startswith(message)
    assert child.returncode == 2


def test_a_line_that_is_no_job_is_a_crash_in_words() -> None:
    child = start("memory", "not json\n")
    assert finish(child)[-1]["status"] == "crashed"
    assert child.returncode == 1


def test_what_libraries_print_stays_out_of_the_events(tmp_path) -> None:
    """Standard output belongs to the events, whoever else writes to it, from Python or below."""
    program = (
        "import io, os, sys; from lab.measure import events, worker; "
        "events = events.Events(worker._private_stdout()); "
        "print('noise', flush=True); os.write(1, b'more noise'); events.warning('signal')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == '{"event": "warning", "text": "signal"}\n'
    assert "more noise" in done.stderr


def test_the_worker_blocks_signals_before_anything_that_starts_threads_is_loaded() -> None:
    """A thread that a library started before would take the signal, and the process would die unheard."""
    program = "import sys, lab.measure.worker; print([m for m in ('numpy', 'torch') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked}:
            raise ImportError(name + " is blocked")
sys.meta_path.insert(0, Blocker())
sys.argv = ["worker", "--part", "time"]
from lab.measure import worker
code = worker.main()
sys.stderr.write(repr([name for name in {blocked} if name in sys.modules]))
import os
sys.stderr.flush()
os._exit(code)
"""


def test_torch_and_numpy_are_enough() -> None:
    blocked = ["streamlit", "altair", "pandas", "typer", "rich", "transformers", "platformdirs", "filelock"]
    child = subprocess.Popen(
        [sys.executable, "-c", BLOCKED.format(blocked=blocked)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "LAB_HOME"},
    )
    child.stdin.write(spec_line("selftest", lengths=(32,), rounds=1))
    child.stdin.flush()
    assert finish(child)[-1]["status"] == "finished"
    assert child.returncode == 0
    assert child.stderr.read().endswith("[]")


MODULES = sorted(path.stem for path in (ROOT / "lab" / "measure").glob("*.py") if path.stem != "__init__")


def test_importing_any_of_it_pulls_in_no_part_of_the_app() -> None:
    program = (
        f"import importlib, sys; [importlib.import_module('lab.measure.' + name) for name in {MODULES}]; "
        "print([name for name in ('streamlit', 'altair', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
