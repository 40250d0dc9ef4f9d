"""Rounds interleave in shuffled order, busy blocks are discarded, what is kept is reported. No clock is tested."""

import itertools
import random
from collections import Counter

import pytest

from lab.measure import protocol as module
from lab.measure.device import Device
from lab.measure.gate import Gate
from lab.measure.protocol import (
    FEWEST_ROUNDS,
    RETRIES,
    Patience,
    Protocol,
    VariantError,
    add_block,
    calls_in_block,
    time_variants,
    warm_up,
)
from lab.measure.samples import MEDIAN_HALF_WIDTH, Samples, quartiles


class Scripted(Device):
    """A device whose blocks take the time their call returns."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[tuple[object, int]] = []

    def time_block(self, call, calls: int) -> float:
        self.blocks.append((call, calls))
        return call()


class ScriptedGate(Gate):
    """A gate that is busy when the script says so."""

    def __init__(self, script) -> None:
        self.script = iter(script)
        self.started = 0

    def start(self) -> None:
        self.started += 1

    def busy(self, variant: str) -> bool:
        return next(self.script, False)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)


QUICK = Protocol(rounds=9, seed=3, warm_up_s=0.0)


def constant(seconds: float):
    return lambda: seconds


def test_every_round_visits_every_variant_once_in_shuffled_order() -> None:
    device = Scripted()
    variants = {name: constant(0.02) for name in "abc"}
    names = {id(call): name for name, call in variants.items()}
    time_variants(device, variants, QUICK, Gate())
    visits = [
        names[id(call)] for call, _ in device.blocks[len(variants) :]
    ]  # after one block of warm-up each
    rounds = [visits[i : i + 3] for i in range(0, len(visits), 3)]
    assert len(rounds) == 9
    assert all(sorted(visited) == ["a", "b", "c"] for visited in rounds)
    assert len({tuple(visited) for visited in rounds}) > 2


def test_the_order_follows_the_seed() -> None:
    def visits(seed: int) -> list[str]:
        seen: list[str] = []
        variants = {name: lambda name=name: seen.append(name) or 0.02 for name in "abcd"}
        time_variants(Scripted(), variants, Protocol(seed=seed, warm_up_s=0.0), Gate())
        return seen

    assert visits(1) == visits(1)
    assert visits(1) != visits(2)


def test_blocks_are_long_enough_for_the_clock() -> None:
    device = Device()
    assert calls_in_block(device, 1e-3) == 10
    assert calls_in_block(device, 3e-3) == 4
    assert calls_in_block(device, 5.0) == 1
    assert calls_in_block(device, 0.0) >= 1


def test_warming_up_ends_when_three_blocks_agree() -> None:
    device = Scripted()
    times = itertools.chain([0.5, 0.2, 0.05, 0.03, 0.0201, 0.0200, 0.0202], itertools.repeat(9.9))
    samples = warm_up(device, lambda: next(times), Protocol(warm_up_s=1e9))
    assert len(device.blocks) == 7
    assert samples.unsettled is None
    assert samples.calls == 1


def test_warming_up_ends_with_its_time_and_says_so(monkeypatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))
    times = itertools.cycle([0.02, 0.04])
    samples = warm_up(Scripted(), lambda: next(times), Protocol(rounds=1, warm_up_s=12))
    samples.seconds.append(0.02)
    assert samples.warnings() == ["warming up ended with the last three blocks 50% apart"]


def test_blocks_kept_though_the_machine_was_busy_are_told() -> None:
    few = Samples(rounds=9, calls=1, seconds=[0.01] * 9, busy=2)
    assert few.noise is None
    assert few.warnings() == ["2 of 9 blocks are kept though the machine was busy: patience was spent"]
    many = Samples(rounds=9, calls=1, seconds=[0.01] * 9, busy=3)
    assert many.noise is not None
    assert many.warnings() == []  # it is said by the noise


def test_a_busy_block_is_taken_again() -> None:
    times = iter([0.9, 0.8, 0.02])
    samples = Samples(rounds=1, calls=1)
    gate = ScriptedGate([True, True, False])
    add_block(samples, Scripted(), gate, Patience(1e9), "a", lambda: next(times))
    assert samples.seconds == [0.02]
    assert (samples.discarded, samples.busy) == (2, 0)
    assert samples.warnings() == ["2 of 3 blocks discarded: the machine was busy"]
    assert samples.noise is None


@pytest.mark.parametrize(("calls", "led_in"), [(1, False), (2, True), (7, True)])
def test_a_block_of_several_calls_is_led_in_by_one_that_is_not_timed(calls: int, led_in: bool) -> None:
    seen: list[str] = []

    class Timed(Device):
        def time_block(self, call, calls: int) -> float:
            seen.append("block")
            return 0.01

    samples = Samples(rounds=1, calls=calls)
    add_block(samples, Timed(), ScriptedGate([True, True]), Patience(1e9), "a", lambda: seen.append("call"))
    assert seen == (["call", "block"] * 3 if led_in else ["block"] * 3)
    assert samples.seconds == [0.01]


def test_a_machine_that_stays_busy_is_marked_and_not_hidden() -> None:
    times = itertools.count(1)
    samples = Samples(rounds=1, calls=1)
    add_block(
        samples, Scripted(), ScriptedGate(itertools.repeat(True)), Patience(1e9), "a", lambda: next(times)
    )
    assert samples.seconds == [1]  # the best of the tries
    assert samples.discarded == RETRIES
    assert samples.noise == "1 of 1 blocks were timed while the machine was busy"


def test_patience_is_shared_and_ends() -> None:
    patience = Patience(1.0)
    samples = Samples(rounds=9, calls=1)
    for _ in range(9):
        add_block(samples, Scripted(), ScriptedGate(itertools.repeat(True)), patience, "a", constant(0.4))
    assert samples.discarded == 3  # 0.4 s lost and 0.05 s waited, each
    assert len(samples.seconds) == 9
    assert samples.busy == 9


@pytest.mark.parametrize(
    ("others", "threads", "said", "noise"),
    [
        (None, 4, [], None),
        (0.4, 4, [], None),
        (0.9, 3, ["other processes used 0.9 of the 1 processors left free: caches and memory were shared"], None),
        (0.9, 4, [], "other processes used 0.9 processors meanwhile; this one left 0 free"),
        (1.8, 3, [], "other processes used 1.8 processors meanwhile; this one left 1 free"),
    ],
)  # fmt: skip
def test_what_others_compute_is_told_and_is_noise_beyond_what_was_left_to_them(
    monkeypatch, others, threads, said, noise
) -> None:
    monkeypatch.setattr(module.Meanwhile, "others", lambda self: others)
    monkeypatch.setattr(module.host, "cores", lambda: 4)
    monkeypatch.setattr(module.torch, "get_num_threads", lambda: threads)
    found = time_variants(Scripted(), {"a": constant(0.02)}, QUICK, Gate())["a"]
    assert found.noise == noise
    assert found.warnings() == said


def test_a_wide_spread_is_noise() -> None:
    samples = Samples(rounds=9, calls=1, seconds=[1.0, 1.0, 1.0, 1.0, 1.0, 1.4, 1.5, 1.6, 1.7])
    assert samples.noise == "the middle half of the samples spreads over 50% of the median"


def test_rounds_stop_when_the_budget_is_spent(monkeypatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))
    found = time_variants(Scripted(), {"a": constant(0.02)}, Protocol(warm_up_s=0, budget_s=5), Gate())
    assert FEWEST_ROUNDS <= len(found["a"].seconds) < 9
    assert found["a"].warnings()[0].endswith("of 9 rounds done: the time budget was spent")


def scattered(seed: int, spread: float):
    generator = random.Random(seed)
    return lambda: generator.gauss(0.02, 0.02 * spread)


@pytest.mark.parametrize(
    ("rounds", "spread", "extra_s", "fewest", "most"),
    [
        (9, 0.001, 1e9, 9, 9),  # sure at once
        (9, 0.02, 1e9, 10, 27),  # sure after some more
        (9, 0.5, 1e9, 27, 27),  # never sure: three times as many, and no more
        (9, 0.5, 0.0, 9, 9),  # no time for more
        (3, 0.5, 1e9, 3, 3),  # a quick look was asked for
        (40, 0.5, 1e9, 100, 100),
        (200, 0.5, 1e9, 200, 200),
    ],
)
def test_rounds_go_on_while_a_median_is_unsure(rounds, spread, extra_s, fewest, most) -> None:
    protocol = Protocol(rounds=rounds, warm_up_s=0, budget_s=1e9, extra_s=extra_s)
    variants = {"steady": constant(0.02), "scattered": scattered(1, spread)}
    found = time_variants(Scripted(), variants, protocol, Gate())
    assert fewest <= len(found["scattered"].seconds) <= most
    assert len(found["steady"].seconds) == len(found["scattered"].seconds)  # rounds stay pairs
    assert found["scattered"].warnings() == []


def test_the_interval_of_a_median_is_that_of_many_medians() -> None:
    generator = random.Random(5)
    medians = [quartiles([generator.gauss(1, 0.1) for _ in range(25)])[1] for _ in range(4000)]
    low, high = sorted(medians)[100], sorted(medians)[-100]  # the middle 95 %
    expected = MEDIAN_HALF_WIDTH * 0.1349 / 5
    assert (high - low) / 2 == pytest.approx(expected, rel=0.05)


def test_one_round_is_always_done(monkeypatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))
    found = time_variants(Scripted(), {"a": constant(0.02)}, Protocol(warm_up_s=0, budget_s=0.0), Gate())
    assert len(found["a"].seconds) == 1


def test_timing_keeps_the_raw_samples_in_order() -> None:
    shuffled = [5.0, 1.0, 4.0, 2.0, 3.0]
    timing = Samples(rounds=5, calls=1, seconds=shuffled, discarded=2).timing(first_call_s=7.0)
    assert (timing.q1_s, timing.median_s, timing.q3_s) == (2.0, 3.0, 4.0)
    assert timing.samples_s == tuple(shuffled)
    assert (timing.n, timing.first_call_s, timing.discarded_blocks) == (5, 7.0, 2)


def test_quartiles_of_one_sample_are_that_sample() -> None:
    assert quartiles([2.0]) == (2.0, 2.0, 2.0)


def test_quartiles_stay_in_order_whatever_the_samples() -> None:
    generator = random.Random(0)
    for n in range(1, 30):
        low, middle, high = quartiles([generator.lognormvariate(0, 1) for _ in range(n)])
        assert low <= middle <= high


def test_a_variant_that_fails_is_named() -> None:
    calls = Counter()

    def fails() -> float:
        calls["b"] += 1
        if calls["b"] > 3:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return 0.02

    with pytest.raises(VariantError) as caught:
        time_variants(Scripted(), {"a": constant(0.02), "b": fails}, QUICK, Gate())
    assert caught.value.variant == "b"
    assert isinstance(caught.value.__cause__, RuntimeError)
