"""The parts that test the clock: trials and pairs of clocks are told for every cell. Nothing here judges a time."""

import io
import json
import subprocess
import sys
from collections.abc import Callable

import psutil
import pytest
import torch
from measured_shapes import job

from lab.measure import clock_tests, cross_check, null_ab
from lab.measure.competitor import BURSTS, DISTURBED_PARTS, STEADY, Competitor
from lab.measure.device import Device
from lab.measure.events import Events
from lab.measure.gate import Gate
from lab.measure.job import Job
from lab.measure.worker import PARTS
from lab.runs.clocks import TORCH_TIMER, TwoClocks
from lab.runs.trials import Trial

SMALL = {"heads": 1, "kv_heads": 1, "head_dim": 8, "rounds": 4, "lengths": (8, 16)}


class Favours(Device):
    """A device on which every other block takes a tenth longer than the one before."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = 0

    def time_block(self, call: Callable[[], object], calls: int) -> float:
        call()
        self.turn += 1
        return 0.011 if self.turn % 2 else 0.010


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, sooner: None) -> None:
    for module in (null_ab, cross_check):
        monkeypatch.setattr(module, "gate_for", lambda kind, threads: Gate())
    monkeypatch.setattr(cross_check, "SHORTEST_S", 0.001)


def told(part: str, opened: Job) -> list[dict]:
    stream = io.StringIO()
    with torch.inference_mode():
        clock_tests.CLOCK_TESTS[part](opened, Events(stream))
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_every_part_is_one_the_worker_takes() -> None:
    assert set(clock_tests.CLOCK_TESTS) <= set(PARTS)


def test_every_cell_is_timed_against_itself_in_every_pass() -> None:
    opened = job(implementations=("naive", "flash", "efficient"), repeats=2, **SMALL)
    events = told("null", opened)
    found = [Trial.from_dict(event) for event in events if event["event"] == "trial"]
    assert [trial.cell for trial in found] == [
        (name, length) for _ in range(2) for length in (8, 16) for name in ("naive", "flash")
    ]
    for trial in found:
        assert [point.variant for point in trial.points] == ["first", "second"]
        assert trial.ratio.paired
        assert all(point.timing.n == 4 and point.kernel for point in trial.points)
    left_out = [event["point"] for event in events if event["event"] == "point"]
    assert {point["implementation"] for point in left_out} == {"efficient"}
    assert all(point["reason"] for point in left_out)


@pytest.mark.parametrize("kind", DISTURBED_PARTS)
def test_a_disturbed_pass_stands_between_quiet_ones_of_the_same_process(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered: list[str] = []

    class Silent:
        def __init__(self, kind: str) -> None:
            self.kind = kind

        def __enter__(self) -> None:
            entered.append(self.kind)

        def __exit__(self, *error: object) -> None:
            entered.append("ended")

    monkeypatch.setattr(null_ab, "Competitor", Silent)
    told_of = told(
        DISTURBED_PARTS[kind], job(implementations=("naive",), repeats=2, **(SMALL | {"lengths": (8,)}))
    )
    found = [event["disturbed"] for event in told_of if event["event"] == "trial"]
    assert found == [False, True, False, True, False]
    assert entered == [kind, "ended"] * 2


def test_an_order_that_never_changed_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device favours whatever comes second; shuffled rounds spread that over both, a fixed order does not."""
    small = SMALL | {"lengths": (8,), "rounds": 40}
    opened = job(device=Favours(), implementations=("naive",), repeats=6, **small)

    def favoured() -> set[bool]:
        return {
            Trial.from_dict(event).ratio.value > 1
            for event in told("null", opened)
            if event["event"] == "trial"
        }

    assert favoured() == {True, False}
    monkeypatch.setattr("random.Random.shuffle", lambda self, values: None)
    assert len(favoured()) == 1


def test_both_clocks_read_every_cell_with_as_many_threads() -> None:
    opened = job(implementations=("naive", "math"), repeats=2, **SMALL)
    pairs = [
        TwoClocks.from_dict(event["clocks"]) for event in told("cross_check", opened) if "clocks" in event
    ]
    assert len(pairs) == 2 * 2 * 2
    assert {pair.tool for pair in pairs} == {TORCH_TIMER}
    assert all(pair.ours_s > 0 and pair.theirs_s > 0 for pair in pairs)


def test_pytorchs_timer_runs_with_our_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    real = cross_check.Timer
    monkeypatch.setattr(
        cross_check, "Timer", lambda **given: seen.append(given["num_threads"]) or real(**given)
    )
    opened = job(implementations=("naive",), **(SMALL | {"lengths": (8,)}))
    told("cross_check", opened)
    assert seen == [opened.threads]


@pytest.mark.parametrize(
    ("times", "size", "expected"),
    [
        ([1.0, 3.0, 5.0, 7.0, 9.0], 2, [2.0, 6.0]),  # the last one alone is no group
        ([1.0, 3.0], 1, [1.0, 3.0]),
        ([1.0, 3.0], 5, [2.0]),
    ],
)
def test_their_times_are_averaged_over_as_many_calls_as_our_blocks(times, size, expected) -> None:
    assert cross_check.averages(times, size) == expected


@pytest.mark.parametrize("kind", [STEADY, BURSTS])
def test_a_competitor_ends_with_its_block(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.measure.competitor.START_S", 0.0)
    with Competitor(kind, 2) as competitor:
        processes = list(competitor._processes)
        assert [process.poll() for process in processes] == [None, None]
    assert all(process.returncode is not None for process in processes)


def test_competitors_end_when_their_test_is_killed() -> None:
    program = (
        "import lab.measure.competitor as module, time\n"
        "with module.Competitor(module.BURSTS, 1) as competitor:\n"
        "    print(competitor._processes[0].pid, flush=True); time.sleep(60)\n"
    )
    test = subprocess.Popen((sys.executable, "-c", program), stdout=subprocess.PIPE, text=True)
    competitor = psutil.Process(int(test.stdout.readline()))
    test.kill()
    test.communicate()
    gone, _ = psutil.wait_procs([competitor], timeout=20)
    assert gone
