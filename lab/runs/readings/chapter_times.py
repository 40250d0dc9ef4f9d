"""Exponents and causal ratios measured here beside the chapter's: opened into the predictor's terms."""

from __future__ import annotations

from collections.abc import Sequence

from lab.cost.formulas import fit_exponent
from lab.cost.prediction import Prediction
from lab.runs.point import Point
from lab.runs.readings.masks import fitted_groups
from lab.runs.readings.sides import FUSED, THERE, Side, chapter_side, counterpart, side_of
from lab.runs.readings.terms import most_different
from lab.runs.readings.words import groups, one, timed, versus
from lab.runs.run import Run

NO_RATES = "`python -m lab calibrate` in this type on this device would open the difference into terms"


def scaling(run: Run, chapter: Run) -> list[str]:
    """Hold fitted exponents against the chapter's, with the lengths and the state of the heap.

    Args:
        run: measured.
        chapter: the chapter's.

    Returns:
        Sentences, one an implementation and number type.
    """
    printed, side = chapter.tables["fitted_exponents_T_ge_1024"], side_of(run)
    said = []
    points = [point for point in run.points if point.experiment == "scaling" and point.causal]
    for fitted in fitted_groups(points, side.kind):
        first, last = fitted[0], fitted[-1]
        theirs = counterpart(first)
        if f"{theirs.dtype}_{theirs.implementation}" not in printed:
            continue
        known = f"{theirs.implementation} in {theirs.dtype}"
        ours = float(
            fit_exponent([p.kv_len for p in fitted], [p.timing.median_s for p in fitted if p.timing])
        )
        said.append(
            f"{first.implementation}, {first.dtype}, from {first.kv_len:,} to {last.kv_len:,}{heap(run, side)}: "
            f"exponent {ours:.2f}; the chapter's {known}: {printed[f'{theirs.dtype}_{theirs.implementation}']}. "
            f"{_growth(first, last, side)}."
        )
    return said


def heap(run: Run, side: Side) -> str:
    """Say whether freed CPU memory was kept for the next call; nothing of other devices."""
    if side.kind != "cpu":
        return ""
    return " with a warm heap" if run.spec.warm_heap else " with page faults in every call"


def _growth(first: Point, last: Point, side: Side) -> str:
    """Say what keeps time from growing with the square of T alone, here and on the chapter's card."""
    if first.implementation in FUSED:
        shares = [_known([of.share_of_pairs(each) for each in ends]) for of, ends in _both(first, last, side)]
        told = [" and ".join(f"{share:.0%}" for share in each) or "an unknown share" for each in shares]
        return (
            f"At {first.kv_len:,} and {last.kv_len:,} tokens its busiest worker computes {told[0]} of the pairs of "
            f"full attention here, {told[1]} there, since tiles on the diagonal are computed whole"
        )
    predicted = [[of.predict(each) for each in ends] for of, ends in _both(first, last, side)]
    parts = [[_shares(each) for each in ends if each is not None] for ends in predicted]
    if any(len(ends) < 2 for ends in parts):
        return NO_RATES
    moved = [
        {name: long.get(name, 0.0) - short.get(name, 0.0) for name in short | long} for short, long in parts
    ]
    name = most_different(moved[0], moved[1])[0]
    told = [f"from {short.get(name, 0.0):.1%} to {long.get(name, 0.0):.1%}" for short, long in parts]
    return (
        f"By its terms what grows most differently is “{name}”: {told[0]} of the time here, {told[1]} there"
    )


def _known(shares: Sequence[float | None]) -> list[float]:
    """The shares where every one is known, else none: one of several would be read as another's."""
    known = [share for share in shares if share is not None]
    return known if len(known) == len(shares) else []


def _both(first: Point, last: Point, side: Side) -> list[tuple[Side, list[Point]]]:
    """The two ends of a range on this device and, by the chapter's names, on its card."""
    return [(side, [first, last]), (chapter_side(), [counterpart(first), counterpart(last)])]


def _shares(prediction: Prediction) -> dict[str, float]:
    """The share of the predicted time by name of the term."""
    found: dict[str, float] = {}
    for term in prediction.terms:
        found[term.name] = found.get(term.name, 0.0) + term.seconds / prediction.seconds
    return found


def causal(run: Run, chapter: Run) -> list[str]:
    """Hold causal over full against the chapter's ratios at the lengths that both have.

    Args:
        run: measured.
        chapter: the chapter's.

    Returns:
        Sentences, one an implementation, number type and batch.
    """
    printed, side = chapter.tables["causal_over_full_time"], side_of(run)
    found = timed(
        point for point in run.points if point.experiment == "causal" and point.kv_len in printed["T"]
    )
    said = []
    for (name, *_), points in groups(found, lambda p: (p.implementation, p.dtype, p.batch)).items():
        pairs = _pairs(points)
        if not pairs or name not in THERE:
            continue
        ours = [ratio for _, _, ratio in pairs]
        theirs = [printed[THERE[name]][printed["T"].index(masked.kv_len)] for masked, _, _ in pairs]
        lengths = ", ".join(f"{masked.kv_len:,}" for masked, _, _ in pairs)
        said.append(
            f"{name}, {pairs[0][0].dtype}, causal over full at T = {lengths}: {listed(ours)} here; {listed(theirs)} "
            f"for {THERE[name]} on the chapter's card. {_masking(pairs, side)}."
        )
    return said


def _pairs(points: Sequence[Point]) -> list[tuple[Point, Point, float]]:
    """The causal and the full point of each length with the ratio of their times, the shortest first."""
    found = []
    for pair in groups(points, lambda point: point.kv_len).values():
        masked, full = one(pair, causal=True), one(pair, causal=False)
        ratio = versus(masked, full)
        if masked is not None and full is not None and ratio is not None:
            found.append((masked, full, ratio.value))
    return sorted(found, key=lambda each: each[0].kv_len)


def listed(values: Sequence[float]) -> str:
    """Write ratios one after the other.

    Args:
        values: ratios.
    """
    return ", ".join(f"{value:.2f}" for value in values)


def _masking(pairs: Sequence[tuple[Point, Point, float]], side: Side) -> str:
    """Say what the mask saves by tiles, or what it adds by terms, here and on the chapter's card."""
    if pairs[0][0].implementation in FUSED:
        told = [
            listed(_known([of.share_of_pairs(mine(masked)) for masked, *_ in pairs]))
            for of, mine in ((side, lambda point: point), (chapter_side(), counterpart))
        ]
        return f"Whole tiles along the diagonal predict {told[0] or 'nothing'} here and {told[1] or 'nothing'} there"
    masked, full, _ = pairs[-1]
    predicted = [[of.predict(point) for point in points] for of, points in _both(masked, full, side)]
    known = [[each for each in pair if each is not None] for pair in predicted]
    if any(len(pair) < 2 for pair in known):
        return NO_RATES
    added = [_added(*pair) for pair in known]
    name = most_different(added[0], added[1])[0]
    ratios = [f"{pair[0].seconds / pair[1].seconds:.2f}" for pair in known]
    told = [f"{terms.get(name, 0.0):.0%}" for terms in added]
    return (
        f"At {masked.kv_len:,} its terms predict {ratios[0]} here and {ratios[1]} there; of what the mask adds to full "
        f"attention, “{name}” differs most: {told[0]} of its time here, {told[1]} there"
    )


def _added(masked: Prediction, full: Prediction) -> dict[str, float]:
    """By name of the term, what the masked call takes beyond the full one, as a share of the full one's time."""
    found: dict[str, float] = {}
    for sign, prediction in ((1, masked), (-1, full)):
        for term in prediction.terms:
            found[term.name] = found.get(term.name, 0.0) + sign * term.seconds / full.seconds
    return found
