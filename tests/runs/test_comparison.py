"""Verdicts: a null comparison is a tie, a real difference is seen, and a drift of the machine cancels in pairs."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.runs import Timing, default_spec, new_run
from lab.runs.comparison import (
    FASTER,
    FEWEST_PROCESSES,
    NOT_JUDGED,
    PROCESS_RATIO,
    SLOWER,
    TIE,
    compare,
    differences,
    interval,
    ratio_of,
    remarks,
)
from lab.runs.joining import joined
from tests.runs.test_records import cell

ONE_PROCESS_EACH = "one process each: measure with --repeats 3 to tell smaller differences"


def timed(samples, **changes):
    low, middle, high = (sorted(samples)[int(share * (len(samples) - 1))] for share in (0.25, 0.5, 0.75))
    timing = Timing(median_s=middle, q1_s=low, q3_s=high, n=len(samples), samples_s=tuple(samples))
    return cell(timing=timing, **changes)


def drawn(generator, scale=1.0, noise=0.01, rounds=9, drift=None):
    drift = drift or [1.0] * rounds
    return [scale * drift[i] * max(0.1, generator.gauss(1, noise)) for i in range(rounds)]


@pytest.mark.parametrize("paired", [True, False])
def test_the_same_kernel_twice_is_a_tie_in_nine_of_ten_trials(paired: bool) -> None:
    generator = random.Random(1)
    verdicts = [
        ratio_of(timed(drawn(generator)), timed(drawn(generator)), paired=paired).verdict for _ in range(200)
    ]
    assert verdicts.count(TIE) >= 180


@pytest.mark.parametrize(("scale", "verdict"), [(0.9, FASTER), (1.1, SLOWER)])
def test_a_tenth_is_seen(scale: float, verdict: str) -> None:
    generator = random.Random(2)
    verdicts = [
        ratio_of(timed(drawn(generator, scale)), timed(drawn(generator)), paired=True).verdict
        for _ in range(100)
    ]
    assert verdicts.count(verdict) >= 95


def of_processes(generator, count, *, between=0.05, scale=1.0):
    """A point timed by several processes: samples of one agree to 1 %, processes differ by `between`."""
    found = timed(drawn(generator, scale * generator.lognormvariate(0, between)))
    for number in range(2, count + 1):
        found = joined(found, timed(drawn(generator, scale * generator.lognormvariate(0, between))), number)
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_same_kernel_in_two_runs_is_a_tie_though_processes_differ(count: int) -> None:
    generator = random.Random(4)
    verdicts = [
        ratio_of(of_processes(generator, count), of_processes(generator, count), paired=False).verdict
        for _ in range(100)
    ]
    assert verdicts.count(TIE) >= 88


@pytest.mark.parametrize("count", [1, 3])
def test_half_as_slow_again_is_seen_across_runs(count: int) -> None:
    generator = random.Random(5)
    verdicts = [
        ratio_of(
            of_processes(generator, count, scale=1.5), of_processes(generator, count), paired=False
        ).verdict
        for _ in range(100)
    ]
    assert verdicts.count(SLOWER) >= 95


def test_processes_that_agree_let_repeated_runs_tell_what_single_ones_cannot() -> None:
    generator = random.Random(6)
    once = [of_processes(generator, 1, between=0.005, scale=scale) for scale in (1.15, 1.0)]
    thrice = [of_processes(generator, 3, between=0.005, scale=scale) for scale in (1.15, 1.0)]
    assert ratio_of(*once, paired=False).verdict == TIE
    assert ratio_of(*thrice, paired=False).verdict == SLOWER


def test_two_single_processes_are_known_to_the_spread_between_processes_and_no_better() -> None:
    low, high = interval([1.0] * 9, [1.0] * 9, paired=False, across=True)
    assert (1 / low, high) == (pytest.approx(PROCESS_RATIO, rel=0.02), pytest.approx(PROCESS_RATIO, rel=0.02))
    assert interval([1.0] * 9, [1.0] * 9, paired=False) == (1.0, 1.0)
    with pytest.raises(ValueError, match="across must be False"):
        interval([1.0] * 9, [1.0] * 9, paired=True, across=True)


def test_it_is_remarked_where_too_few_processes_were_timed() -> None:
    generator = random.Random(7)
    one, two, three = (of_processes(generator, count) for count in (1, 2, FEWEST_PROCESSES))
    advice = "measure with --repeats 3 to tell smaller differences"
    said = {
        "one process each": remarks(one, one),
        "first is of 1 process": remarks(one, three),
        "first is of 2 processes and second is of 1 process": remarks(two, one),
    }
    assert all(words[-1] == f"{who}: {advice}" for who, words in said.items())
    assert remarks(three, three) == ()
    assert remarks(timed([1e-3] * 2), one) == ()  # not judged at all


def test_conditions_that_differ_between_runs_are_told_where_both_are_known() -> None:
    run = new_run(default_spec("scaling"))
    one, other, unknown = (
        replace(run, environment=environment)
        for environment in (
            {"threads": 1, "allocator": "warm heap: kept", "cache": "warm", "seed": 0},
            {"threads": 2, "allocator": "default: page faults", "cache": "warm", "seed": 0},
            {"threads": 1},
        )
    )
    assert differences(one, other) == (
        "threads: 1 against 2",
        "allocator: warm heap: kept against default: page faults",
    )
    assert differences(one, unknown) == differences(one, one) == ()


def test_a_slow_minute_cancels_only_in_pairs() -> None:
    generator = random.Random(3)
    drift = [1, 1, 1, 1, 2, 2, 2, 2, 2]
    first, second = (drawn(generator, scale, 0.003, drift=drift) for scale in (0.9, 1.0))
    together = ratio_of(timed(first), timed(second), paired=True)
    apart = ratio_of(timed(first), timed(second), paired=False)
    assert together.verdict == FASTER
    assert apart.verdict == TIE
    assert together.high - together.low < (apart.high - apart.low) / 5


def test_a_sure_difference_under_two_per_cent_is_a_tie() -> None:
    first, second = timed([1.01] * 9), timed([1.0] * 9)
    ratio = ratio_of(first, second, paired=True)
    assert (ratio.low, ratio.high) == (pytest.approx(1.01), pytest.approx(1.01))
    assert ratio.verdict == TIE
    assert ratio_of(timed([1.03] * 9), second, paired=True).verdict == SLOWER


@given(st.lists(st.floats(1e-6, 1.0), min_size=3, max_size=12), st.integers(1, 1000))
def test_the_interval_does_not_depend_on_the_unit_and_holds_the_ratio_of_equals(samples, factor) -> None:
    low, high = interval(samples, samples, paired=True)
    assert low == high == 1.0
    scaled = interval([factor * value for value in samples], samples, paired=True)
    assert scaled == (pytest.approx(factor), pytest.approx(factor))


@pytest.mark.parametrize(("first", "second"), [([1.0], [2.0]), ([1.0, 1.0], [2.0, 2.0, 2.0])])
def test_too_few_samples_make_a_ratio_without_a_verdict(first, second) -> None:
    ratio = ratio_of(timed(first), timed(second), paired=False)
    assert (ratio.value, ratio.low, ratio.verdict) == (0.5, None, NOT_JUDGED)
    assert "no interval" in ratio.text
    assert ratio.verdict == "not judged: fewer than three samples"


def test_what_cannot_be_compared_is_said() -> None:
    assert ratio_of(cell(timing=None), cell(), paired=True) is None
    with pytest.raises(ValueError, match="both must have samples, got 0 and 1"):
        interval([], [1.0], paired=False)
    with pytest.raises(ValueError, match="paired samples must be equally many, got 1 and 2"):
        interval([1.0], [1.0, 2.0], paired=True)


def test_runs_are_matched_cell_by_cell_and_differences_are_remarked() -> None:
    nine = [1e-3] * 9
    first, second = (new_run(default_spec("scaling")) for _ in range(2))
    for point in (timed(nine), timed(nine, kv_len=1024, q_len=1024), timed(nine, variant="a")):
        first = first.with_point(point)
    slow = timed([2e-3] * 9, kernel="other", status="noisy", reason="busy")
    for point in (
        slow,
        timed(nine, variant="b"),
        cell(kv_len=1024, q_len=1024, status="refused", timing=None),
    ):
        second = second.with_point(point)
    both, only_first, only_second = compare(first, second)
    assert [each.first.kv_len for each in both] == [512, 1024]
    assert both[0].ratio.value == 0.5
    assert both[0].ratio.verdict == FASTER
    assert both[0].remarks == ("second is noisy", "seen against other", ONE_PROCESS_EACH)
    assert both[1].ratio is None
    assert both[1].remarks == ("second is refused",)
    assert [point.variant for point in only_first] == ["a"]
    assert [point.variant for point in only_second] == ["b"]
