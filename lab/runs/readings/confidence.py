"""How far a calibration can be trusted between the lengths it measured: one figure, one sentence."""

from __future__ import annotations

from lab.cost.calibration import Calibration
from lab.cost.confidence import left_out_cells
from lab.cost.score import Cell, Score, score

LEFT_OUT = "left out, "
"""How the families of such cells begin, see lab.cost.confidence."""


def confidence(calibration: Calibration) -> Score | None:
    """Score the calibration's own lengths, each predicted from the others.

    Args:
        calibration: any.

    Returns:
        The score; None where fewer than three lengths were calibrated, or not in the accumulator's type as well.
    """
    try:
        cells = left_out_cells(calibration)
    except ValueError:  # of a file written by hand: 16-bit math is priced by the accumulator's rates
        return None
    return score(cells) if cells else None


def worst_cell(cell: Cell) -> str:
    """Name the worst cell of such a score, such as "math bf16, T = 384, causal".

    Args:
        cell: of the score.
    """
    return f"{cell.family.removeprefix(LEFT_OUT)}, {cell.label}"


def confidence_words(calibration: Calibration) -> str:
    """Say how large the error is, and what it is of.

    Args:
        calibration: any.
    """
    found = confidence(calibration)
    if found is None:
        return "Confidence: not known; it takes three calibrated lengths, in the accumulator's type as well."
    return (
        f"Confidence: attention at a calibrated length, predicted from the other lengths, is off by "
        f"{found.mean_absolute_error:.1%} on average and by {found.worst.error:+.1%} at worst "
        f"({worst_cell(found.worst)}). That is the error of the rates between lengths; fused kernels and decode "
        "steps are not in it."
    )
