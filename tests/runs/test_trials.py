"""Trials of the clock: what is said of a perfect clock, of one that invents differences, and beside competitors."""

import random
from dataclasses import replace

import pytest

from lab.runs.trials import MOST_DIFFERENCE, Trial, disturbed_of, null_of, quiet_ranges, quiet_seconds
from tests.runs.test_comparison import drawn, timed


def trials(count: int, noise: float, *, scale: float = 1.0, seed: int = 0) -> list[Trial]:
    """Trials of a clock whose samples scatter by `noise`, the second variant's times multiplied by `scale`."""
    generator = random.Random(seed)
    return [
        Trial(timed(drawn(generator, 1e-3, noise)), timed(drawn(generator, 1e-3 * scale, noise)))
        for _ in range(count)
    ]


def noisy(trial: Trial) -> Trial:
    return replace(trial, first=replace(trial.first, status="noisy", reason="busy"))


def at(seconds: float, **changes: object) -> Trial:
    """A trial of one cell whose points both read `seconds`, with changes to the timing or the status."""
    discarded = changes.pop("discarded_blocks", 0)
    point = timed([seconds] * 9, **changes)
    point = replace(point, timing=replace(point.timing, discarded_blocks=discarded))
    return Trial(point, point)


def test_a_good_clock_keeps_both_limits() -> None:
    found = null_of(trials(60, 0.005))
    assert (found.trials, found.clean, found.quiet, found.met) == (60, 60, True, True)
    assert 0 < found.median < found.p90 < MOST_DIFFERENCE
    assert found.p90 <= found.most
    assert found.verdict.startswith("met: nine of ten within 0.")


@pytest.mark.parametrize(("noise", "scale"), [(0.05, 1.0), (0.001, 1.03)])
def test_a_clock_that_scatters_or_favours_a_variant_misses(noise: float, scale: float) -> None:
    found = null_of(trials(60, noise, scale=scale))
    assert found.quiet
    assert not found.met
    assert found.verdict.startswith("MISSED")


def test_favouring_a_variant_shows_in_the_verdicts() -> None:
    assert null_of(trials(20, 0.001, scale=1.03)).ties == 0
    assert null_of(trials(20, 0.001, scale=1.015)).ties == 1  # under 2 per cent is a tie, and yet too far
    assert null_of(trials(20, 0.001, scale=1.015)).p90 == pytest.approx(0.015, abs=0.002)


def test_noisy_trials_are_counted_and_many_of_them_forbid_a_verdict() -> None:
    good = trials(54, 0.005)
    wild = [noisy(trial) for trial in trials(6, 0.5, seed=1)]
    assert null_of([*good, *wild]).met
    assert null_of([*good, *wild]).most == null_of(good).most
    busy = null_of([*good, *wild, noisy(good[0])])
    assert not busy.quiet
    assert busy.verdict.startswith("not judged: 7 of 61 trials were disturbed; the others: nine of ten")
    assert null_of(wild).verdict == "not judged: all 6 trials were disturbed"
    assert not null_of([]).quiet


def test_a_trial_of_two_samples_is_neither_met_nor_missed() -> None:
    good = trials(60, 0.005)
    short = [Trial(timed([1e-3, 1e-3]), timed([2e-3, 2e-3])) for _ in range(6)]
    alone = null_of(short)
    assert (alone.clean, alone.unjudged, alone.quiet) == (6, 6, False)
    assert alone.verdict == "not judged: fewer than three samples in 6 of 6 trials"
    few, many = null_of([*good, *short]), null_of([*good, *short, short[0]])
    assert (few.unjudged, few.p90, few.ties) == (6, null_of(good).p90, null_of(good).ties)
    assert few.verdict.startswith("met: ")
    assert few.verdict.endswith("; not judged: fewer than three samples in 6 of 66 trials")
    assert not many.quiet
    assert many.verdict.startswith(
        "not judged: fewer than three samples in 7 of 67 trials, 0 disturbed; the others"
    )


def test_beside_a_competitor_only_unmarked_deviations_are_silent() -> None:
    quiet = [at(1e-3), at(1.02e-3), at(1.04e-3), noisy(at(9e-3))]
    assert list(quiet_seconds(quiet).values()) == [pytest.approx(1.02e-3)]
    quiet_s = quiet_ranges(quiet)
    assert list(quiet_s.values()) == [(1e-3, 1.04e-3)]
    beside = [
        at(1.09e-3),  # undisturbed: within 5 % of what a quiet pass took
        at(1.03e-3, discarded_blocks=4),  # gated
        at(2e-3, status="noisy", reason="busy"),  # off, and marked
        at(1.2e-3),  # off, and nobody says so
        at(0.8e-3, discarded_blocks=1),  # off, though blocks were discarded
        at(5.0, kv_len=4096),  # never timed on a quiet machine: nothing to compare with
        Trial(*(replace(point, timing=None) for point in at(1e-3).points)),  # not timed
    ]
    found = disturbed_of(beside, quiet_s)
    assert (found.points, found.noisy, found.gated, found.untouched, found.off) == (10, 2, 4, 4, 6)
    assert found.quiet_spread == pytest.approx(0.04)
    assert [line.rpartition(": ")[2] for line in found.silent] == ["+15.4%"] * 2 + ["-20.0%"] * 2
    assert found.verdict.startswith("MISSED: 4 of 10 points silently off")
    assert disturbed_of(beside, {}).verdict == "not judged: no cell has a quiet time to compare with"
    assert disturbed_of(beside[:3], quiet_s).verdict.startswith("met: 0 of 6")


def test_a_trial_survives_json() -> None:
    (trial,) = trials(1, 0.01)
    assert Trial.from_dict({"first": trial.first.to_dict(), "second": trial.second.to_dict()}) == trial
    with pytest.raises(ValueError, match="was not timed"):
        _ = replace(trial, second=replace(trial.second, timing=None)).ratio
