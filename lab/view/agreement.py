"""Predicted beside measured, for all points of several runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from lab.cost import catalog
from lab.cost.calibration import Calibration
from lab.cost.chapter_card import FUSED_CELL, ITEM_CELL, LAUNCH_CELL, STREAM_CELL
from lab.cost.datasheet import from_sheet
from lab.cost.score import FITTED, HELD_OUT, Cell, Score, score
from lab.cost.traffic import peak_extra_bytes
from lab.runs import Point, Run
from lab.runs.calibrations import COST_NAMES, predict_point
from lab.runs.reference import CHAPTER_RUN_ID
from lab.view import calibrations
from lab.view.format import tokens_label
from lab.view.points import kind_of

TIME, PEAK = "time", "peak"
OTHER_CALLS = ("training", "model")
"""Experiments whose points are more than one call of attention, which is what lab.cost predicts."""
SAME_CALL = {"accuracy": None, "gqa": None, "kv_int8": None, "mask": "is_causal"}
"""Experiments where a variant, or the one named, is the plain call all the same: of other inputs, say."""
FORWARD_KERNELS = ("FlashAttention-2",)
"""Kernels of published tables that the data sheet of their card predicts, as `python -m lab validate` does."""


@dataclass(frozen=True)
class Pair:
    """One point with its prediction.

    Args:
        run: it belongs to.
        point: as measured.
        cell: predicted and measured, in seconds or bytes; fitted where the point gave a constant.
    """

    run: Run
    point: Point
    cell: Cell


def pairs(runs: Iterable[Run], quantity: str) -> list[Pair]:
    """The points of runs that have a measurement and a prediction.

    Args:
        runs: kept here, bundled or uploaded.
        quantity: TIME or PEAK.
    """
    found = []
    for run in runs:
        for point in run.points:
            if kind_of(point, recorded=run.recorded_on is not None) == "refused":
                continue
            measured = measured_of(point, quantity)
            predicted = predicted_of(run, point, quantity) if measured else None
            if not measured or not predicted:
                continue
            role = FITTED if quantity == TIME and _gave_a_constant(run, point) else HELD_OUT
            label = f"T = {tokens_label(point.kv_len)}, batch {point.batch}"
            family = f"{point.experiment}, {point.implementation}"
            found.append(Pair(run, point, Cell(family, label, predicted, measured, role)))
    return found


def measured_of(point: Point, quantity: str) -> float | None:
    """What was measured of a point, in seconds or bytes."""
    if quantity == PEAK:
        return None if point.peak_extra_bytes is None else float(point.peak_extra_bytes)
    return point.timing.median_s if point.timing else None


def predicted_of(run: Run, point: Point, quantity: str) -> float | None:
    """The prediction of a point; None where its kernel is not modelled or its device not calibrated."""
    if quantity == PEAK:
        return _predicted_peak(run, point)
    if not _is_plain(run, point):
        return None
    calibration = _sheet_of(run, point) if run.title is not None else calibrations.of_run(run, point.dtype)
    if calibration is None:
        return None
    # The chapter names no kernel for its decode steps; on that card SDPA had the memory-efficient one alone.
    known = run.run_id == CHAPTER_RUN_ID and point.implementation == "sdpa"
    found = predict_point(replace(point, implementation="efficient") if known else point, calibration)
    return None if found is None else found.seconds


def _is_plain(run: Run, point: Point) -> bool:
    """Whether a point is a call of attention alone, without a window, a mask of its own or a backward pass."""
    if point.experiment in OTHER_CALLS:
        return False
    if point.variant is None or run.title is not None:
        return True
    return point.experiment in SAME_CALL and SAME_CALL[point.experiment] in (None, point.variant)


def _sheet_of(run: Run, point: Point) -> Calibration | None:
    """The data sheet of the card that a published table names, for the kernels and shapes it says something of."""
    card_id = str(run.environment.get("card"))
    if point.q_len == 1 or point.variant not in FORWARD_KERNELS or card_id not in catalog.hardware():
        return None
    return from_sheet(catalog.card(card_id), point.dtype)


def _predicted_peak(run: Run, point: Point) -> float | None:
    """What the point itself carries, which its worker computed for its device; else computed here."""
    if point.predicted_peak_bytes is not None:
        return float(point.predicted_peak_bytes)
    if point.implementation not in COST_NAMES or run.recorded_on is None:
        return None
    device = "cpu" if calibrations.here_kind(run) == "cpu" else "cuda"
    try:
        return float(peak_extra_bytes(point.implementation, device=device, **point.shape))
    except ValueError:
        return None


def _gave_a_constant(run: Run, point: Point) -> bool:
    """Whether the chapter's card was calibrated with this very cell, which therefore proves nothing."""
    if run.run_id != CHAPTER_RUN_ID:
        return False
    if point.experiment == "decode":
        return (point.batch, point.kv_len) in (LAUNCH_CELL, ITEM_CELL, STREAM_CELL)
    return point.implementation == "efficient" and (point.dtype, point.kv_len) == FUSED_CELL


def scored(found: Iterable[Pair], limit: float) -> Score | None:
    """The errors of the pairs that prove something; None where there are none."""
    cells = [pair.cell for pair in found]
    return score(cells, limit) if any(cell.role == HELD_OUT for cell in cells) else None


def rows(found: Iterable[Pair], names: dict[str, str], text: Callable[[float], str]) -> list[dict[str, str]]:
    """The pairs as a table, the farthest from its prediction first.

    Args:
        found: the pairs.
        names: of the runs by identifier.
        text: writes a time or a number of bytes.
    """
    ordered = sorted(found, key=lambda pair: -abs(pair.cell.error))
    return [
        {
            "run": names[pair.run.run_id],
            "point": pair.cell.family,
            "shape": f"{pair.cell.label}, {pair.point.heads} × {pair.point.head_dim}, {pair.point.dtype}",
            "predicted": text(pair.cell.predicted),
            "measured": text(pair.cell.measured),
            "predicted / measured": f"{pair.cell.predicted / pair.cell.measured:.2f}",
            "role": pair.cell.role,
        }
        for pair in ordered
    ]
