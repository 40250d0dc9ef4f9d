"""How much faster SDPA looks than naive attention: by one cold call of each, and warm."""

from __future__ import annotations

from typing import NamedTuple

from lab.runs import Point, Run
from lab.view import points
from lab.view.format import times, tokens_label
from lab.view.frames import Mark
from lab.view.palette import FUSED, NAIVE
from lab.view.prompt import Prompt, fused_or_naive

WARM, FIRST = "warm", "first"
EXPERIMENTS = ("scaling", "first_call")


class Stated(NamedTuple):
    """What a publication says of one call of each implementation, naive over SDPA."""

    cold: float
    warm: float


def stated(run: Run | None) -> Stated | None:
    """The two ratios that a recorded run states; None where it states none."""
    found = run.tables.get("first_call") if run else None
    return Stated(found["cold_ratio_naive_over_sdpa"], found["warm_ratio"]) if found else None


def landmarks(run: Run | None, card: str) -> list[tuple[float, str]]:
    """The two ratios that a recorded run states, as level lines: at which context is not stated.

    Args:
        run: recorded; None for none.
        card: its device, in words.
    """
    said = stated(run)
    if said is None:
        return []
    return [
        (said.cold, f"{card}, one cold call of each: {times(said.cold)}"),
        (said.warm, f"{card}, the same warm: {times(said.warm)}"),
    ]


def marks(view: Prompt, run: Run | None, *, recorded: bool) -> list[Mark]:
    """Naive over fused, warm and at the first call, for each context that both were timed at.

    Args:
        view: what the charts of the page share.
        run: measured here, or recorded; None for none.
        recorded: whether the run came from another machine.
    """
    wanted = view.shape(1, view.scene.dtype if recorded else view.dtype_here)
    wanted = {name: value for name, value in wanted.items() if name not in ("q_len", "kv_len")}
    timed: dict[int, dict[str, Point]] = {}
    for point in run.points if run else ():
        role = fused_or_naive(point.implementation)
        belongs = point.experiment in EXPERIMENTS and point.timing and point.variant is None
        if role and belongs and points.fits(point, wanted, same_type=True):
            timed.setdefault(point.kv_len, {})[role] = point
    found = []
    for length, pair in sorted(timed.items()):
        if NAIVE not in pair or FUSED not in pair:
            continue
        slow, fast = pair[NAIVE].timing, pair[FUSED].timing
        kind = points.kind_of(pair[FUSED], recorded=recorded)
        noisy = any(point.status == "noisy" for point in pair.values())
        if slow and fast and fast.median_s:
            found.append(_mark(WARM, kind, length, slow.median_s / fast.median_s, noisy))
        if slow and fast and slow.first_call_s and fast.first_call_s:
            found.append(_mark(FIRST, kind, length, slow.first_call_s / fast.first_call_s, noisy))
    return found


def _mark(series: str, kind: str, length: int, ratio: float, noisy: bool) -> Mark:
    return Mark(series, kind, float(length), ratio, ratio, ratio, noisy=noisy)


def dearest(run: Run | None) -> tuple[Point, float] | None:
    """The quiet point of a run whose first call exceeds its warm median most, and by how much."""
    timed = [
        (point, point.timing.first_call_s / point.timing.median_s)
        for point in (run.points if run else ())
        if point.experiment in EXPERIMENTS
        and point.status != "noisy"
        and point.timing
        and point.timing.first_call_s
    ]
    return max(timed, key=lambda item: item[1], default=None)


def takeaway(run: Run | None, recorded: Run | None, card: str) -> str:
    """How a first call misleads, here or as recorded.

    Args:
        run: measured here at the shape shown; None for none.
        recorded: the run compared with; None for none.
        card: its device, in words.
    """
    found, said = dearest(run), stated(recorded)
    if found:
        point, factor = found
        return (
            f"The first call of {point.implementation} at T = {tokens_label(point.kv_len)} took "
            f"{times(factor)} its warm time on this machine"
        )
    if said:
        return (
            f"One cold call of each made SDPA look {times(said.cold)} faster on {card}; warm it was "
            f"{times(said.warm)} (context not stated)"
        )
    return "A first call also pays for loading, compiling and memory: measure to see how much here"
