"""How far predictions are from measurements: cell by cell, on average, and at worst."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

HELD_OUT, FITTED = "held out", "fitted"


@dataclass(frozen=True)
class Cell:
    """One prediction beside its measurement.

    Args:
        family: what is averaged together, such as "naive fp32".
        label: the cell within it, such as "T = 512, causal".
        predicted: in seconds, or a ratio of two times.
        measured: in the same unit.
        role: "held out", or "fitted" for a cell that gave a constant and therefore proves nothing.
    """

    family: str
    label: str
    predicted: float
    measured: float
    role: str = HELD_OUT

    def __post_init__(self) -> None:
        """Check that both figures are above 0."""
        for name in ("predicted", "measured"):
            value = getattr(self, name)
            if not math.isfinite(value) or value <= 0:
                raise ValueError(f"{name} must be above 0 in cell {self.label!r}, got {value!r}")
        if self.role not in (HELD_OUT, FITTED):
            raise ValueError(f"role must be {HELD_OUT!r} or {FITTED!r}, got {self.role!r}")

    @property
    def error(self) -> float:
        """Relative error: predicted / measured - 1."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True)
class Score:
    """The held-out errors of some cells.

    Args:
        cells: how many were scored.
        mean_absolute_error: mean of |error|.
        bias: mean of the signed error.
        worst: the cell with the largest |error|.
        misses: cells beyond the limit, worst first.
    """

    cells: int
    mean_absolute_error: float
    bias: float
    worst: Cell
    misses: tuple[Cell, ...]


def score(cells: Iterable[Cell], limit: float = 0.2) -> Score:
    """Score held-out cells.

    Args:
        cells: fitted ones among them are left out.
        limit: |error| beyond which a cell is listed as a miss.

    Returns:
        The score.

    Raises:
        ValueError: no cell was held out.
    """
    scored = [cell for cell in cells if cell.role == HELD_OUT]
    if not scored:
        raise ValueError("cells must hold at least one that was held out, got none")
    by_size = sorted(scored, key=lambda cell: -abs(cell.error))
    return Score(
        cells=len(scored),
        mean_absolute_error=math.fsum(abs(cell.error) for cell in scored) / len(scored),
        bias=math.fsum(cell.error for cell in scored) / len(scored),
        worst=by_size[0],
        misses=tuple(cell for cell in by_size if abs(cell.error) > limit),
    )


def by_family(cells: Sequence[Cell], limit: float = 0.2) -> dict[str, Score]:
    """Score each family that has a held-out cell, in order of first appearance.

    Args:
        cells: the cells.
        limit: |error| beyond which a cell is listed as a miss.

    Returns:
        The scores by family.
    """
    names = dict.fromkeys(cell.family for cell in cells if cell.role == HELD_OUT)
    return {name: score([cell for cell in cells if cell.family == name], limit) for name in names}
