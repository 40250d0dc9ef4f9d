"""Readings of how time grows with the length, and of masks: causal, explicit and windowed."""

from __future__ import annotations

from collections.abc import Sequence

from lab.cost.formulas import fit_exponent
from lab.runs.point import Point
from lab.runs.readings.words import at, groups, one, timed, told, versus

LAUNCH_FLOOR_S = {"cpu": 500e-6, "cuda": 100e-6}
"""By kind of device: below these a call waits for its start as much as it computes: no point of a fit."""
SHORTEST_FITTED = 512  # tokens; tiles and overheads bend the curve below
FEWEST_FITTED = 3
NAIVE_KINDS = ("mask on every row", "mask on the diagonal blocks", "first row of each block unmasked")


def scaling(points: Sequence[Point], kind: str) -> list[str]:
    """Fit the exponent of time against length, on the lengths that allow it, and name them.

    Args:
        points: of the scaling experiment.
        kind: of the device, "cpu" or "cuda".

    Returns:
        Sentences.
    """
    said = []
    for fitted in fitted_groups(points, kind):
        first = fitted[0]
        lengths = [point.kv_len for point in fitted]
        exponent = float(fit_exponent(lengths, [point.timing.median_s for point in fitted if point.timing]))
        mask = "causal" if first.causal else "full"
        noisy = sum(point.status == "noisy" for point in fitted)
        doubt = f"; {noisy} of {len(fitted)} points are noisy" if noisy else ""
        said.append(
            f"{first.implementation}, {first.dtype}, {mask}: time grows as T to the {exponent:.2f} from "
            f"{lengths[0]:,} to {lengths[-1]:,}{doubt}."
        )
    return said


def fitted_groups(points: Sequence[Point], kind: str) -> list[list[Point]]:
    """Gather the points that an exponent may be fitted to.

    Args:
        points: of the scaling experiment.
        kind: of the device, "cpu" or "cuda".

    Returns:
        Enough points of one implementation, number type, mask and batch each, the shortest first.
    """
    found = []
    for group in groups(timed(points), lambda p: (p.implementation, p.dtype, p.causal, p.batch)).values():
        fitted = sorted((p for p in group if _may_be_fitted(p, kind)), key=lambda p: p.kv_len)
        if len({point.kv_len for point in fitted}) >= FEWEST_FITTED:
            found.append(fitted)
    return found


def _may_be_fitted(point: Point, kind: str) -> bool:
    if point.timing is None or point.kv_len < SHORTEST_FITTED:
        return False
    return point.timing.median_s > LAUNCH_FLOOR_S[kind]


def causal(points: Sequence[Point]) -> list[str]:
    """Say what the causal mask saves or costs, with what the kernel's tiles predict.

    Args:
        points: of the causal experiment.

    Returns:
        Sentences.
    """
    said = []
    for found in groups(timed(points), lambda p: (p.implementation, p.batch, p.kv_len, p.dtype)).values():
        masked, full = one(found, causal=True), one(found, causal=False)
        ratio = versus(masked, full)
        if masked is None or ratio is None:
            continue
        predicted = masked.measures.get("predicted_causal_over_full")
        tiles = "" if predicted is None else f"; its tiles predict {predicted:.3g}"
        said.append(f"{masked.implementation} at {at(masked)}: causal over full {told(ratio)}{tiles}.")
    return said


def mask(points: Sequence[Point]) -> list[str]:
    """Say whether an explicit mask keeps the kernel, and what masking fewer rows brings.

    Args:
        points: of the mask experiment.

    Returns:
        Sentences.
    """
    said = []
    for (name, *_), found in groups(points, lambda p: (p.implementation, p.batch, p.kv_len)).items():
        if name == "naive":
            said += _row_skipping(found)
            continue
        plain = one(found, variant="is_causal")
        for kind in ("boolean mask", "float mask"):
            masked = one(found, variant=kind)
            if masked is None or plain is None or not plain.kernel:
                continue
            if masked.kernel is None:
                said.append(f"{name} at {at(masked)} refuses a {kind}: {masked.reason}")
                continue
            kept = "keeps its kernel" if masked.kernel == plain.kernel else f"changes to {masked.kernel}"
            ratio = versus(masked, plain)
            time = "" if ratio is None else f"; time over that with is_causal {told(ratio)}"
            said.append(f"{name} at {at(masked)} with a {kind} {kept}{time}.")
    return said


def _row_skipping(found: Sequence[Point]) -> list[str]:
    every, diagonal, literal = (one(found, variant=kind) for kind in NAIVE_KINDS)
    said = []
    ratio = versus(literal, every)
    if literal is not None and ratio is not None:
        harm = literal.measures.get("error_against_causal", 0.0)
        said.append(
            f"Naive at {at(literal)}, the first row of each block unmasked: time over masking every row "
            f"{told(ratio)}; the answer is another one, off by up to {harm:.2g}."
        )
    ratio = versus(diagonal, every)
    if diagonal is not None and ratio is not None:
        said.append(
            f"Naive at {at(diagonal)} by blocks, masking the diagonal alone and skipping what lies above: "
            f"time over masking every row {told(ratio)}; the answer is the same."
        )
    return said


def windowed(points: Sequence[Point]) -> list[str]:
    """Say what a window saves in time, computed in blocks and as a mask.

    Args:
        points: of the windowed experiment.

    Returns:
        Sentences.
    """
    said = []
    for found in groups(timed(points), lambda p: (p.batch, p.kv_len, p.dtype)).values():
        full = one(found, variant=None)
        for point in found:
            ratio = versus(point, full)
            pairs = _share_of_pairs(point, full)
            if point.variant is None or ratio is None or pairs is None:
                continue
            said.append(
                f"{point.variant} at {at(point)}: time over full causal attention {told(ratio)}, for "
                f"{pairs:.2g} of its pairs."
            )
    return said


def _share_of_pairs(point: Point, full: Point | None) -> float | None:
    if full is None or not full.measures.get("pairs_needed") or "pairs_needed" not in point.measures:
        return None
    return point.measures["pairs_needed"] / full.measures["pairs_needed"]
