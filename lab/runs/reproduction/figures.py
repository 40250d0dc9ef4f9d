"""Claims that print figures of their card: the same quantity, read from what this machine measured."""

from __future__ import annotations

import re

from lab.cost.evidence import Claim
from lab.runs.comparison import ratio_of
from lab.runs.reproduction.values import Found, Measured, Seen, exact, lengths_of, ratio, time, values

FUSED = ("efficient", "flash", "sdpa")
"""What stands in for the chapter's memory-efficient kernel, the best match first."""
WIDTHS = {"fp16": ("fp16", "bf16"), "fp32": ("fp32",)}
"""Types that a printed one may be measured in: as many bytes an element."""
ALL_LOGITS, RANDOM = "all logits", "random"
EAGER_AND_SDPA = {"implementation": "eager"}, {"implementation": "sdpa"}


def peak(claim: Claim, match: re.Match[str], seen: Seen) -> Found:
    """Naive attention's peak beside its inputs."""
    point = seen.find(
        experiment=("memory", "scaling"), implementation="naive", kv_len=int(match[1]), batch=1, heads=12,
        dtype=WIDTHS["fp16"],
    )  # fmt: skip
    return values(claim, [exact(f"naive, {point.dtype}", point.peak_extra_bytes)] if point else [])


def errors(claim: Claim, match: re.Match[str], seen: Seen) -> Found:
    """The largest error of each implementation against float64, on random inputs."""
    found = []
    for name in claim.labels:
        wanted = FUSED if name == "efficient" else (name,)
        point = seen.find(
            experiment="accuracy", implementation=wanted, variant=RANDOM, kv_len=int(match[2]),
            dtype=WIDTHS[match[1]],
        )  # fmt: skip
        found.append(exact(f"{point.implementation}, {point.dtype}", point.max_abs_error) if point else None)
    return values(claim, found)


def times(claim: Claim, match: re.Match[str], seen: Seen) -> Found:
    """The median time of one layer's attention, by type and implementation."""
    found = []
    for label in claim.labels:
        dtype, _, name = label.partition("_")
        wanted = FUSED if name == "efficient" else (name,)
        point = seen.find(
            experiment="scaling", implementation=wanted, kv_len=int(match[1]), batch=1, heads=12,
            dtype=WIDTHS[dtype],
        )  # fmt: skip
        found.append(time(f"{point.implementation}, {point.dtype}", point) if point else None)
    return values(claim, found)


def masks(claim: Claim, match: re.Match[str], seen: Seen) -> Found:
    """Causal time over full time of one implementation, by length."""
    wanted = FUSED if match[1] == "efficient" else (match[1],)
    found: list[Measured | None] = []
    for length in lengths_of(claim):
        pair = seen.pair(
            {"causal": True}, {"causal": False}, experiment="causal", implementation=wanted, kv_len=length
        )
        compared = ratio_of(*pair, paired=True) if pair else None
        name = pair[0].implementation if pair else ""
        found.append(ratio(f"{name} at T = {length:,}", compared) if compared else None)
    return values(claim, found)


def model(claim: Claim, match: re.Match[str], seen: Seen) -> Found:
    """GPT-2 with eager attention and with SDPA: times, peak or difference of the logits."""
    pair = seen.pair(*EAGER_AND_SDPA, experiment="model", variant=ALL_LOGITS, kv_len=int(match[2]))
    if pair is None:
        return None
    eager, sdpa = pair
    if match[1] == "times":
        return values(
            claim, [time(f"{point.implementation}, {point.dtype}", point) for point in (eager, sdpa)]
        )
    if match[1] == "peak":
        return values(claim, [exact(f"{sdpa.implementation}, {sdpa.dtype}", sdpa.peak_extra_bytes)])
    return values(claim, [exact(f"in {sdpa.dtype}", sdpa.measures.get("difference_from_eager"))])


def decode(claim: Claim, match: re.Match[str], seen: Seen) -> Found:
    """The median time of one layer's decode attention."""
    point = seen.find(
        experiment="decode", implementation=FUSED, batch=int(match[1]), kv_len=int(match[2]), heads=12,
        kv_heads=12,
    )  # fmt: skip
    return values(claim, [time(f"{point.implementation}, {point.dtype}", point)] if point else [])


def first_call(claim: Claim, _: re.Match[str], seen: Seen) -> Found:
    """Naive over SDPA, of first calls and of warm ones."""
    pair = seen.pair(
        {"implementation": "naive"}, {"implementation": "sdpa"}, experiment="first_call", kv_len=512
    )
    if pair is None or pair[0].timing is None or pair[1].timing is None:
        return None
    naive, sdpa = pair
    slow, fast = pair[0].timing.first_call_s, pair[1].timing.first_call_s
    cold = None if slow is None or not fast else slow / fast
    warm = ratio_of(naive, sdpa, paired=False)
    labels = (f"first calls of naive over SDPA, {naive.dtype}", "the same, warm")
    return values(claim, [exact(labels[0], cold), ratio(labels[1], warm) if warm else None])
