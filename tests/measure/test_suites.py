"""First calls in processes of their own, and suites: several experiments as one stream."""

import json
from dataclasses import replace

import pytest
from measured_shapes import SMALL, events_of, job, points_of

from lab.measure.device import Device
from lab.measure.events import Events
from lab.measure.experiments import first_call, suite
from lab.measure.experiments.registry import EXPERIMENTS
from lab.runs import default_spec, suites

pytestmark = pytest.mark.usefixtures("sooner")


def test_a_fresh_process_times_its_first_call_and_then_a_warm_one() -> None:
    opened = job("first_call", lengths=(32,), implementations=("naive",), **SMALL)
    (point,) = points_of("first_call", "cold", opened)
    assert point.timing.first_call_s > 0
    assert point.timing.n == 3
    assert point.measures["second_call_s"] > 0


def test_first_calls_of_several_processes_are_joined_by_their_median() -> None:
    opened = job("first_call", lengths=(32,), implementations=("naive",), **SMALL)
    (point,) = points_of("first_call", "cold", opened)
    several = [replace(point, timing=replace(point.timing, first_call_s=first)) for first in (3.0, 1.0, 2.0)]
    joined = first_call.together(several)
    assert joined.timing.first_call_s == 2.0
    ends = {"first_call_least_s": 1.0, "first_call_most_s": 3.0, "processes": 3.0}
    assert joined.measures == point.measures | ends
    failed = replace(point, timing=None, status="crashed")
    assert first_call.together([point, failed]) is failed


@pytest.mark.slow
def test_each_implementation_gets_a_process_of_its_own() -> None:
    opened = job("first_call", lengths=(32,), implementations=("naive", "sdpa"), device=Device(), **SMALL)
    points = points_of("first_call", "time", opened)
    assert [point.implementation for point in points] == ["naive", "sdpa"]
    assert all(point.timing.first_call_s > 0 and point.status in ("ok", "noisy") for point in points)
    assert all(point.measures["processes"] == 1 for point in points)


def test_a_suite_tells_the_points_of_all_its_experiments_in_one_stream(monkeypatch) -> None:
    sizes = {name: {"lengths": (32,), "heads": 2, "kv_heads": 2, "head_dim": 16} for name in suites.CPU}
    monkeypatch.setattr(suites, "QUICK", sizes)
    monkeypatch.setattr(suites, "QUICK_ROUNDS", 3)
    opened = job("cpu", quick=True)
    for part in ("time", "memory"):
        events = events_of("cpu", part, opened)
        found = dict.fromkeys(e["point"]["experiment"] for e in events if e["event"] == "point")
        expected = [name for name in suites.CPU if part in suite.parts_of(name)]
        assert list(found) == expected
        assert events[0] == {"event": "plan", "total": 100 * len(expected)}
        progress = [e["done"] for e in events if e["event"] == "progress"]
        assert progress == sorted(progress)
        assert 0 <= progress[0] <= progress[-1] <= events[0]["total"]
        assert sum(e["event"] == "ceilings" for e in events) == (part == "time")


def test_progress_of_a_suite_is_that_of_its_shares() -> None:
    lines = []

    class Stream:
        def write(self, line):
            lines.append(json.loads(line))

        def flush(self):
            pass

    told = suite.SuiteEvents(Events(Stream()), 2)
    told.begin("first")
    told.plan(4)
    told.progress("a")
    told.begin("second")
    told.plan(0)
    told.progress("b")
    assert [(line["done"], line["total"], line["what"]) for line in lines[1:]] == [
        (0, 200, "first: a"),
        (100, 200, "second: b"),
    ]


def test_the_cpu_suite_is_on_the_cpu() -> None:
    assert default_spec("cpu", device="auto").device == "cpu"
    with pytest.raises(ValueError, match="device is 'cuda'; the experiment cpu measures on the cpu"):
        default_spec("cpu", device="cuda")
    assert set(EXPERIMENTS) >= set(suites.ALL)


def test_a_first_call_that_does_not_fit_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_call, "fresh", lambda *given: pytest.fail("a process was started"))
    opened = job("first_call", lengths=(262_144,), implementations=("naive",), **SMALL)
    (point,) = points_of("first_call", "time", opened)
    assert point.status == "refused"
    assert point.need_bytes > point.have_bytes
