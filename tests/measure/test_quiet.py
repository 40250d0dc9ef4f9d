"""Waiting for a quiet machine: by how idle the processors are, and not for ever."""

import itertools

import pytest

from lab.measure import quiet
from lab.measure.quiet import Meanwhile, Quiet, busy_cores


@pytest.fixture
def loads(monkeypatch):
    """Let the windows of a wait show these loads, the last one for ever."""

    def show(*values: float | None) -> None:
        windows = itertools.chain(values, itertools.repeat(values[-1]))
        monkeypatch.setattr(quiet, "busy_cores", lambda window_s: next(windows))

    return show


def test_two_idle_windows_in_a_row_are_quiet(loads) -> None:
    loads(1.0, 0.0, 1.0, 0.05, 0.05, 2.0)
    told = []
    waiting = Quiet(10, told.append)
    assert waiting.wait()
    assert waiting.left_s == 8
    assert told == ["waiting for a quiet machine: others use 1.0 processors"] * 2


def test_patience_ends_and_is_shared_between_waits(loads) -> None:
    loads(1.0)
    waiting = Quiet(3)
    assert not waiting.wait()
    assert waiting.left_s == 0
    assert not waiting.wait()


def test_without_counters_there_is_no_wait(loads) -> None:
    loads(None)
    assert Quiet(3).wait()


def test_load_is_ticks_that_were_not_idle(monkeypatch, tmp_path) -> None:
    ticks = iter([(1000, 900, 4), (1200, 1050, 4)])
    monkeypatch.setattr(quiet, "_ticks", lambda: next(ticks))
    assert busy_cores(0.0) == pytest.approx(4 * 50 / 200)


def test_counters_are_read_as_the_system_writes_them(monkeypatch, tmp_path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  10 1 5 80 4 0 0 0 7 0\ncpu0 5 0 3 40 2 0 0 0\ncpu1 5 1 2 40 2 0 0 0\nintr 9\n")
    monkeypatch.setattr(quiet, "STAT", stat)
    assert quiet._ticks() == (100, 84, 2)
    monkeypatch.setattr(quiet, "STAT", tmp_path / "missing")
    assert busy_cores(0.0) is None


@pytest.mark.parametrize(
    ("seconds", "busy", "own_s", "others"),
    [
        (1.0, 2.0, 1.0, 1.0),  # one thread here, one process there
        (1.0, 1.0, 1.0, 0.0),
        (1.0, 0.99, 1.0, 0.0),  # never less than nothing: the system counts in steps
        (0.1, 2.0, 0.1, None),  # too short for these steps
    ],
)
def test_others_are_what_this_process_did_not_compute(monkeypatch, seconds, busy, own_s, others) -> None:
    cores, steps = 4, quiet.os.sysconf("SC_CLK_TCK")
    stretch = round(seconds * steps)
    ticks = iter([(0, 0, cores), (cores * stretch, round((cores - busy) * stretch), cores)])
    computing = iter([5.0, 5.0 + own_s])
    monkeypatch.setattr(quiet, "_ticks", lambda: next(ticks))
    monkeypatch.setattr(quiet.time, "process_time", lambda: next(computing))
    found = Meanwhile().others()
    assert found == (None if others is None else pytest.approx(others))


def test_where_the_system_does_not_count_nothing_is_said(monkeypatch) -> None:
    monkeypatch.setattr(quiet, "_ticks", lambda: None)
    assert Meanwhile().others() is None
