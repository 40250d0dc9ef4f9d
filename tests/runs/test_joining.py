"""Several processes that timed one cell: samples join, each process's own spread stays, and the larger one is told."""

from dataclasses import replace

import pytest

from lab.runs import JobSpec, Point, Timing, default_spec, new_run
from lab.runs.comparison import ratio_of
from lab.runs.joining import APART, joined, with_repeat
from lab.runs.rows import rows, to_csv
from tests.runs.test_comparison import timed


def process(median_s: float, spread: float = 0.01, **changes: object) -> Point:
    """A point whose nine samples lie evenly over `spread` of the median, on either side."""
    return timed([median_s * (1 + spread * (i - 4) / 4) for i in range(9)], **changes)


def test_samples_join_and_each_process_keeps_its_own() -> None:
    first, second, third = process(1.0), process(1.1), process(0.98)
    point = joined(joined(first, second, 2), third, 3)
    timing = point.timing
    assert timing.samples_s == first.timing.samples_s + second.timing.samples_s + third.timing.samples_s
    assert (timing.n, timing.median_s) == (27, pytest.approx(1.0))
    assert timing.q1_s < timing.median_s < timing.q3_s
    assert [repeat.median_s for repeat in timing.repeats] == pytest.approx([1.0, 1.1, 0.98])
    assert [repeat.n for repeat in timing.repeats] == [9, 9, 9]
    assert timing.between_spread == pytest.approx(0.12)
    assert timing.within_spread == pytest.approx(0.01)
    assert Point.from_dict(point.to_dict()) == point


def test_a_spread_between_processes_is_told_only_where_it_exceeds_that_within() -> None:
    steady = joined(process(1.0), process(1.005), 2)
    assert steady.warnings == ()
    shaken = joined(steady, process(1.2), 3)
    assert shaken.warnings == (
        "the medians of 3 processes lie 19.9% apart, more than the 1.0% that the samples of one spread over: "
        "the time is no more certain than that",
    )
    calmed = joined(process(1.0, 0.5), process(1.2, 0.5), 2)
    assert calmed.warnings == ()
    longer = joined(shaken, process(1.0), 4)
    assert [text for text in longer.warnings if text.startswith(APART)] == list(longer.warnings)
    assert "4 processes" in longer.warnings[0]


def test_of_one_process_there_is_no_spread_between() -> None:
    timing = process(1.0).timing
    assert timing.between_spread is None
    assert timing.within_spread == pytest.approx(0.01)


def test_what_a_later_process_alone_warns_of_says_so_and_the_worse_status_stands() -> None:
    first = process(1.0, warnings=("slow here", "1 of 10 blocks discarded: the machine was busy"))
    second = process(
        1.0,
        status="noisy",
        reason="busy",
        warnings=("slow here", "3 of 12 blocks discarded: the machine was busy"),
    )
    point = joined(first, second, 2)
    assert (point.status, point.reason) == ("noisy", "busy")
    assert point.warnings == (
        *first.warnings,
        "process 2: 3 of 12 blocks discarded: the machine was busy",
    )


def test_a_later_process_that_could_not_time_the_cell_leaves_the_earlier_time() -> None:
    refused = replace(process(1.0), status="refused", reason="no memory", timing=None)
    point = joined(process(1.0), refused, 2)
    assert (point.status, point.reason) == ("refused", "no memory")
    assert point.timing == process(1.0).timing
    run = with_repeat(new_run(default_spec("scaling")), process(1.0), 2)
    assert [known.timing.repeats for known in run.points] == [()]


def test_medians_alone_join_too() -> None:
    first, second = (replace(process(value), timing=Timing(value)) for value in (1.0, 3.0))
    timing = joined(first, second, 2).timing
    assert (timing.median_s, timing.n, timing.q1_s) == (2.0, None, None)
    assert timing.between_spread == 1.0


def test_an_interval_of_repeated_runs_spans_what_processes_differ_by() -> None:
    """Within each process all samples agree to 0.1 %; processes lie 10 % apart, and that is the uncertainty."""
    slow = joined(joined(process(1.0, 0.001), process(1.1, 0.001), 2), process(0.95, 0.001), 3)
    other = joined(joined(process(1.02, 0.001), process(0.96, 0.001), 2), process(1.08, 0.001), 3)
    assert slow.timing.repeats
    ratio = ratio_of(slow, other, paired=False)
    assert ratio.low < 0.95
    assert ratio.high > 1.05
    together = ratio_of(process(1.0, 0.001), process(1.02, 0.001), paired=True)
    assert together.high - together.low < 0.01  # of one process, in the same rounds


def test_processes_are_in_the_table_for_other_programs() -> None:
    run = new_run(default_spec("scaling")).with_point(joined(process(1.0), process(1.2), 2))
    (row,) = rows(run)
    assert row["repeats"] == pytest.approx([1.0, 1.2])
    assert row["between_spread"] == pytest.approx(0.2 / row["median_s"])
    assert "between_spread" in to_csv(run).splitlines()[0]


def test_too_many_samples_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="repeats is 11; with 1,000 rounds it must be at most 10"):
        JobSpec("scaling", rounds=1000, repeats=11)
    with pytest.raises(ValueError, match="repeats is 0"):
        JobSpec("scaling", repeats=0)
