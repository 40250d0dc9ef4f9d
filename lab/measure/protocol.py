"""How a time is taken: warm up, then interleaved rounds of gated blocks in shuffled order, raw samples kept.

A sample is a block of back-to-back calls, long enough for the clock, divided by their number. Every round
visits every variant once, so that a slow minute of the machine falls on all of them alike.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch

from lab.measure import host
from lab.measure.device import Call, Device
from lab.measure.gate import Gate
from lab.measure.quiet import Meanwhile
from lab.measure.samples import Samples

SETTLED = 0.02  # spread of three blocks in a row, relative to their median
UNSETTLED = 0.10  # the spread worth a warning when warming up ends without having settled
RETRIES = 6  # of one block, while the machine is busy
PAUSE_S = 0.05
FEWEST_ROUNDS = 3
SURE_ROUNDS = 9  # with fewer, somebody wants a quick look, and gets it
MOST_ROUNDS = 100  # that not being sure leads to


@dataclass(frozen=True)
class Protocol:
    """The numbers of the protocol.

    Args:
        rounds: rounds asked for; up to three times as many are done while medians are unsure, see `extra_s`.
        seed: of the order within each round.
        warm_up_s: longest warm-up of one variant.
        budget_s: no round starts later than this after the first, once a few are done.
        patience_s: time spent on blocks that are thrown away, and on waiting for a quiet machine.
        extra_s: no round beyond those asked for starts later than this after the first.
    """

    rounds: int = 9
    seed: int = 0
    warm_up_s: float = 0.3
    budget_s: float = 30.0
    patience_s: float = 2.0
    extra_s: float = 1.0

    def goes_on(self, done: int, spent_s: float, unsure: bool) -> bool:
        """Say whether there is another round.

        Args:
            done: rounds done.
            spent_s: seconds since the first began.
            unsure: whether some median is.
        """
        if done < self.rounds:
            return not done or spent_s <= self.budget_s * (1 if done >= FEWEST_ROUNDS else 2)
        enough = self.rounds < SURE_ROUNDS or done >= min(3 * self.rounds, MOST_ROUNDS)
        return unsure and not enough and spent_s <= min(self.extra_s, self.budget_s)

    def sooner(self) -> Protocol:
        """Give the protocol of the smallest shape, for which a reader waits: less warming up and waiting."""
        return replace(self, warm_up_s=self.warm_up_s / 2, patience_s=self.patience_s / 4)


class VariantError(Exception):
    """A variant failed while it was being timed; the cause is chained."""

    def __init__(self, variant: str) -> None:
        """Name the variant."""
        super().__init__(variant)
        self.variant = variant


def warm_up(device: Device, call: Call, protocol: Protocol) -> Samples:
    """Run a variant until three blocks in a row agree, or its time is up.

    Args:
        device: where it runs.
        call: the variant.
        protocol: the numbers.

    Returns:
        Empty samples that know how many calls a block takes.
    """
    start = time.perf_counter()
    blocks = [device.time_block(call, 1)]
    apart = math.inf
    while apart > SETTLED and time.perf_counter() - start < protocol.warm_up_s:
        blocks.append(device.time_block(call, calls_in_block(device, blocks[-1])))
        if len(blocks) > 3:
            last = blocks[-3:]
            apart = (max(last) - min(last)) / statistics.median(last)
    unsettled = apart if UNSETTLED < apart < math.inf else None
    return Samples(protocol.rounds, calls_in_block(device, min(blocks)), unsettled)


def calls_in_block(device: Device, call_s: float) -> int:
    """Give how many calls make a block long enough for the device's clock.

    Args:
        device: where they run.
        call_s: seconds of one call.

    Returns:
        At least 1.
    """
    return max(1, math.ceil(device.shortest_block_s / max(call_s, 1e-9)))


class Patience:
    """Time that may be spent on blocks that are thrown away and on waiting, shared by a shape's variants."""

    def __init__(self, seconds: float) -> None:
        """Start with so many seconds."""
        self.left_s = seconds

    def wait(self, lost_s: float) -> None:
        """Count a lost block and pause for the machine to calm down."""
        time.sleep(PAUSE_S)
        self.left_s -= lost_s + PAUSE_S


def add_block(
    samples: Samples, device: Device, gate: Gate, patience: Patience, name: str, call: Call
) -> None:
    """Time one block, again while the machine is busy and there is patience left; keep the best of the tries.

    Short calls, many of which make a block, are led in by one that is not timed: after a pause the threads sleep.
    Without it torch.utils.benchmark, whose blocks leave no pause, reads naive attention at T = 256 up to 9 %
    faster on a small server's CPU (`python -m lab cross-check`).

    Args:
        samples: where the sample goes.
        device: where it runs.
        gate: what tells a busy machine.
        patience: what may still be spent.
        name: the variant.
        call: what to time.
    """
    tries: list[float] = []
    busy = True
    while busy and len(tries) <= RETRIES:
        if tries:
            patience.wait(tries[-1] * samples.calls)
        if samples.calls > 1:
            call()  # untimed: it wakes the threads and refills the caches that another variant has used
        gate.start()
        taken_s = device.time_block(call, samples.calls)
        busy = gate.busy(name)
        samples.causes += [gate.cause] * busy
        tries.append(taken_s)
        if patience.left_s <= 0:
            break
    samples.seconds.append(min(tries) if busy else tries[-1])
    samples.busy += busy
    samples.discarded += len(tries) - 1


def time_variants(
    device: Device,
    variants: Mapping[str, Call],
    protocol: Protocol,
    gate: Gate,
    tell: Callable[[str], None] = lambda what: None,
) -> dict[str, Samples]:
    """Time variants against each other.

    Args:
        device: where they run.
        variants: what to time, by name.
        protocol: the numbers.
        gate: what tells a busy machine.
        tell: called with a few words before each step.

    Returns:
        The samples of each variant.

    Raises:
        VariantError: a variant raised; its error is the cause.
    """
    order, shuffler = list(variants), random.Random(protocol.seed)
    samples: dict[str, Samples] = {}
    patience = Patience(protocol.patience_s)
    current = ""
    try:
        for current in order:
            tell(f"{current}: warming up")
            samples[current] = warm_up(device, variants[current], protocol)
        meanwhile = Meanwhile()
        start, done, unsure = time.perf_counter(), 0, True
        while protocol.goes_on(done, time.perf_counter() - start, unsure):
            done += 1
            tell(f"round {done} of {protocol.rounds}" if done <= protocol.rounds else f"round {done}: unsure")
            shuffler.shuffle(order)
            for current in order:
                add_block(samples[current], device, gate, patience, current, variants[current])
            unsure = any(each.unsure for each in samples.values())
        others = meanwhile.others() if device.kind == "cpu" else None
        free = max(0, host.cores() - torch.get_num_threads())
        for each in samples.values():
            each.others, each.free = others, free
    except Exception as error:
        raise VariantError(current) from error
    return samples
