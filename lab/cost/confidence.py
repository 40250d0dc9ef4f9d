"""How far a calibration can be trusted between the sizes it measured: each size predicted from the others."""

from __future__ import annotations

import math
from dataclasses import replace

from lab.cost.calibration import Calibration
from lab.cost.prediction import predict_attention
from lab.cost.prediction_terms import calibrated_head_dims
from lab.cost.score import Cell

MATERIALISING = ("naive", "naive_inplace", "math")
MASK_KINDS = ("ones", "tril", "not", "where_mask")
ONE_QUERY = ("qk1/", "pv1/")


def left_out_cells(calibration: Calibration) -> list[Cell]:
    """Leave out one calibrated length at a time and predict attention of that length without it.

    Args:
        calibration: measured, with element rates by size.

    Returns:
        A cell for each inner length, implementation and mask: `predicted` from the other lengths,
        `measured` the sum of the passes as they were measured at that length. None where fewer than three
        lengths were calibrated (a data sheet, printed figures).
    """
    cells = []
    for length, heads in _inner_lengths(calibration):
        without = _without_length(calibration, length, heads)
        for implementation in MATERIALISING:
            for causal in (False, True):
                seconds, with_all = (
                    predict_attention(
                        implementation,
                        used,
                        batch=1,
                        heads=heads,
                        kv_heads=heads,
                        q_len=length,
                        kv_len=length,
                        head_dim=calibrated_head_dims(calibration)[0],
                        causal=causal,
                    ).seconds
                    for used in (without, calibration)
                )
                label = f"T = {length}, {'causal' if causal else 'full'}"
                family = f"left out, {implementation} {calibration.dtype}"
                cells.append(Cell(family, label, seconds, with_all))
    return cells


def _inner_lengths(calibration: Calibration) -> list[tuple[int, int]]:
    """Find the calibrated lengths with a neighbour on both sides, each with the number of heads."""
    scores, masks = calibration.elements.get("softmax"), calibration.elements.get("tril")
    if scores is None or masks is None or len(scores.points) != len(masks.points):
        return []
    pairs = zip(scores.points[1:-1], masks.points[1:-1], strict=True)
    return [(math.isqrt(round(mask)), round(size / mask)) for (size, _), (mask, _) in pairs]


def _without_length(calibration: Calibration, length: int, heads: int) -> Calibration:
    """Drop the points of one length from every curve, in the accumulator's calibration too."""
    matmuls = {
        name: curve if name.startswith(ONE_QUERY) else curve.without(heads * length**2)
        for name, curve in calibration.matmuls.items()
    }
    elements = {
        kind: curve.without(length**2 if kind in MASK_KINDS else heads * length**2)
        for kind, curve in calibration.elements.items()
    }
    wide = None if calibration.wide is None else _without_length(calibration.wide, length, heads)
    return replace(calibration, matmuls=matmuls, elements=elements, wide=wide)
