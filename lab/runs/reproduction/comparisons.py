"""Claims that print no figure: a comparison of this machine's own points decides, or fills a gap."""

from __future__ import annotations

import re

from lab.cost.evidence import Claim
from lab.runs.comparison import FASTER, SLOWER, Ratio, ratio_of
from lab.runs.point import Point
from lab.runs.readings.terms import alike
from lab.runs.readings.words import told
from lab.runs.reproduction.figures import ALL_LOGITS, EAGER_AND_SDPA, RANDOM
from lab.runs.reproduction.values import MEASURED, OPEN, SUPPORTED, UNSUPPORTED, Found, Seen


def spread(claim: Claim, _: re.Match[str], seen: Seen) -> Found:
    """Whether the rounds of one cell lie as close together as the claim says its repeats did."""
    point = seen.find(experiment="scaling", implementation="naive")
    share = point.timing.within_spread if point and point.timing else None
    if point is None or share is None:
        return None
    most = claim.figures[0].interval.high / 100
    return (SUPPORTED if share <= most else UNSUPPORTED), (
        f"{point.implementation} at T = {point.kv_len:,}: the middle half of its rounds spans {share:.2%} of "
        "their median"
    )


def splitting(_: Claim, __: re.Match[str], seen: Seen) -> Found:
    """A lone sequence gains where several parts beat one part, computed the same way in the same rounds."""
    points = [
        point for point in seen.points("split_kv") if point.batch == 1 and point.timing and point.variant
    ]
    best: tuple[Ratio, Point] | None = None
    for point in points:
        how = str(point.variant).partition(", ")[2]
        control = next(
            (one for one in points if one.variant == f"1 part, {how}" and one.kv_len == point.kv_len), None
        )
        ratio = None if control in (None, point) else ratio_of(point, control, paired=True)
        if ratio is not None and (best is None or ratio.value < best[0].value):
            best = ratio, point
    if best is None:
        return None
    ratio, point = best
    outcome = {FASTER: SUPPORTED, SLOWER: UNSUPPORTED}.get(ratio.verdict, OPEN)
    return outcome, f"{point.variant}, against one part at T = {point.kv_len:,}: time over time {told(ratio)}"


def same_peak(_: Claim, __: re.Match[str], seen: Seen) -> Found:
    """SDPA saves nothing where both peaks are the same, as readings call it."""
    peaks = {}
    for length in sorted({point.kv_len for point in seen.points("model")}):
        pair = seen.pair(*EAGER_AND_SDPA, experiment="model", variant=ALL_LOGITS, kv_len=length)
        if pair and pair[0].peak_extra_bytes and pair[1].peak_extra_bytes:
            peaks[length] = pair[0].peak_extra_bytes, pair[1].peak_extra_bytes
    if not peaks:
        return None
    words = ", ".join(f"{sdpa / eager:.3g} at {length:,}" for length, (eager, sdpa) in peaks.items())
    same = all(alike(eager, sdpa) for eager, sdpa in peaks.values())
    return (SUPPORTED if same else UNSUPPORTED), f"peak of SDPA over eager, all logits: {words}"


def backends(_: Claim, __: re.Match[str], seen: Seen) -> Found:
    """Which backends ran here, by type; another build on another card need not agree."""
    said = []
    for dtype in ("fp16", "bf16", "fp32"):
        plain = [p for p in seen.points("backends") if p.dtype == dtype and p.variant in ("causal", dtype)]
        ran = sorted({p.implementation for p in plain if p.status in ("ok", "noisy")})
        refused = sorted({p.implementation for p in plain if p.status == "refused"})
        if plain:
            said.append(f"{dtype}: {', '.join(ran) or 'none'} ran, {', '.join(refused) or 'none'} refused")
    return (OPEN, "; ".join(said)) if said else None


def flash(_: Claim, __: re.Match[str], seen: Seen) -> Found:
    """Times of a FlashAttention kernel, where one runs here."""
    timed = [p for p in seen.points("scaling") if p.timing and "flash" in (p.kernel or "").lower()]
    if not timed:
        return None
    names = ", ".join(sorted({str(point.kernel) for point in timed}))
    return MEASURED, f"{len(timed)} {'point' if len(timed) == 1 else 'points'} of a flash kernel: {names}"


def other_masks(_: Claim, __: re.Match[str], seen: Seen) -> Found:
    """Masks beyond the causal one that a backend took here."""
    masked = [p for p in seen.points("backends") if p.variant in ("boolean mask", "float mask")]
    ran = sorted({f"{p.implementation} with a {p.variant}" for p in masked if p.status in ("ok", "noisy")})
    return (MEASURED, f"here ran {', '.join(ran)}") if ran else None


def outliers(_: Claim, __: re.Match[str], seen: Seen) -> Found:
    """Errors on inputs that are not random noise."""
    found = [p for p in seen.points("accuracy") if p.variant not in (None, RANDOM) and p.max_abs_error]
    if not found:
        return None
    worst = max(found, key=lambda point: point.max_abs_error or 0.0)
    return (
        MEASURED,
        f"with {worst.variant} the largest error here is {worst.max_abs_error:.2g}, of "
        f"{worst.implementation} in {worst.dtype}",
    )
