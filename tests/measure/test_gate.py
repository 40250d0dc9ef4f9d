"""Gates tell a busy machine from a quiet one, by stated clocks and counters."""

import pytest

from lab.measure import gate as module
from lab.measure.gate import ComputingGate, Gate, PressureGate, gate_for, waiting_us


class Clocks:
    """Stands for the time module and the pressure file."""

    def __init__(self) -> None:
        self.wall = self.computing = 0.0
        self.waited_us = 0

    def perf_counter(self) -> float:
        return self.wall

    def process_time(self) -> float:
        return self.computing

    def pass_by(self, wall: float, computing: float, waited: float = 0.0) -> None:
        self.wall += wall
        self.computing += computing
        self.waited_us += round(waited * 1e6)


@pytest.fixture
def clocks(monkeypatch) -> Clocks:
    clocks = Clocks()
    monkeypatch.setattr(module, "time", clocks)
    monkeypatch.setattr(module, "waiting_us", lambda: clocks.waited_us)
    return clocks


@pytest.mark.parametrize(
    ("computing", "waited", "busy"),
    [
        (2.0, 0.0, False),  # quiet
        (1.2, 0.04, False),  # a serial stretch, and hardly anyone waited
        (1.2, 0.30, True),  # somebody waited and this process got less than it asked for
        (1.99, 0.50, False),  # others waited, on other processors: this process had all of its own
    ],
)
def test_a_block_is_busy_when_somebody_waited_and_it_was_short_of_processors(clocks, computing, waited, busy):
    gate = PressureGate(threads=2)
    clocks.pass_by(5.0, 3.0, 2.0)  # before the block
    gate.start()
    clocks.pass_by(1.0, computing, waited)
    assert gate.busy("a") is busy


@pytest.mark.parametrize(("missing", "busy"), [(0.04, False), (0.06, True), (0.8, True)])
def test_one_thread_that_waits_makes_a_block_of_many_threads_busy(clocks, missing, busy) -> None:
    """Fifteen of sixteen threads had all their time, and waited for the last one."""
    gate = PressureGate(threads=16)
    gate.start()
    clocks.pass_by(1.0, 16.0 - missing, missing + 0.1)
    assert gate.busy("a") is busy


def test_without_pressure_a_block_is_held_to_the_best_of_its_variant(clocks) -> None:
    gate = ComputingGate()
    found = []
    for variant, computing in (("a", 1.0), ("b", 0.4), ("a", 0.95), ("a", 0.8), ("b", 0.4)):
        gate.start()
        clocks.pass_by(1.0, computing)
        found.append(gate.busy(variant))
    assert found == [False, False, False, True, False]


def test_pressure_is_read_from_the_line_of_any_task(monkeypatch, tmp_path) -> None:
    file = tmp_path / "cpu"
    file.write_text(
        "some avg10=0.00 avg60=0.29 avg300=0.07 total=123456\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
    )
    monkeypatch.setattr(module, "PRESSURE", file)
    assert waiting_us() == 123456
    assert isinstance(gate_for("cpu", 2), PressureGate)


def test_the_gate_follows_what_the_system_counts(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(module, "PRESSURE", tmp_path / "missing")
    assert isinstance(gate_for("cpu", 2), ComputingGate)
    assert type(gate_for("xpu", 2)) is Gate
    monkeypatch.setattr(module.os, "name", "nt")
    assert type(gate_for("cpu", 2)) is Gate


def test_a_gate_that_sees_nothing_says_so() -> None:
    assert Gate().busy("a") is False
    assert Gate().describe().startswith("not gated")
