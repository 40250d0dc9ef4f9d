"""Exponents fitted to the times of a run, each with the range of contexts that it was fitted to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import pandas as pd

from lab.cost import fit_exponent
from lab.runs import Point, Run
from lab.view.format import digits, tokens_label
from lab.view.palette import FUSED
from lab.view.prompt import fused_or_naive


@dataclass(frozen=True)
class Fit:
    """Time = c · Tᵖ over a range of contexts.

    Args:
        where: the device, in words.
        implementation: as measured.
        dtype: number type.
        exponent: p.
        lengths: contexts that it was fitted to, in order.
        steps: between neighbouring contexts, (from, to, times as long, exponent).
        printed: the exponent that the run's own publication states; None where it states none.
        noisy: how many of the times fitted were taken while the machine was busy.
    """

    where: str
    implementation: str
    dtype: str
    exponent: float
    lengths: tuple[int, ...]
    steps: tuple[tuple[int, int, float, float], ...]
    printed: float | None
    noisy: int = 0

    @property
    def name(self) -> str:
        """The implementation as the charts name it."""
        if fused_or_naive(self.implementation) != FUSED:
            return self.implementation
        return "SDPA" if self.implementation == "sdpa" else f"SDPA ({self.implementation})"

    @property
    def range_text(self) -> str:
        """The contexts that it holds for."""
        return f"{tokens_label(self.lengths[0])} … {tokens_label(self.lengths[-1])}"


def fits(run: Run | None, where: str, shape: dict, shortest: int) -> list[Fit]:
    """Fit an exponent to each implementation and number type of a run.

    Args:
        run: measured here or recorded; None for none.
        where: the device, in words.
        shape: batch, heads, kv_heads, head_dim, causal; every number type is taken.
        shortest: contexts below are left out of the fit, not of the steps.

    Returns:
        A fit for each series with at least two contexts from `shortest` on.
    """
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in run.points if run else ():
        timed = point.experiment == "scaling" and point.timing is not None and point.q_len == point.kv_len
        known = fused_or_naive(point.implementation) is not None or point.implementation == "math"
        if timed and known and all(getattr(point, name) == value for name, value in shape.items()):
            groups.setdefault((point.implementation, point.dtype), []).append(point)
    printed = run.tables.get("fitted_exponents_T_ge_1024", {}) if run else {}
    found = (_fit(where, key, group, shortest, printed) for key, group in groups.items())
    return [fit for fit in found if fit is not None]


def _fit(
    where: str, key: tuple[str, str], points: Iterable[Point], shortest: int, printed: dict[str, float]
) -> Fit | None:
    points = list(points)
    times = {point.kv_len: point.timing.median_s for point in points if point.timing}
    ordered = sorted(times)
    lengths = tuple(length for length in ordered if length >= shortest)
    if len(lengths) < 2:
        return None
    exponent = fit_exponent(lengths, [times[length] for length in lengths])
    steps = []
    for first, second in pairwise(ordered):
        local = fit_exponent([first, second], [times[first], times[second]])
        steps.append((first, second, times[second] / times[first], local))
    implementation, dtype = key
    return Fit(
        where,
        implementation,
        dtype,
        exponent,
        lengths,
        tuple(steps),
        printed.get(f"{dtype}_{implementation}"),
        sum(point.status == "noisy" and point.kv_len in lengths for point in points),
    )


def table(found: Iterable[Fit]) -> pd.DataFrame:
    """The fits as text: exponent, its range, and the growth at each step."""
    rows = []
    for fit in found:
        row = {
            "device": fit.where,
            "implementation": fit.implementation,
            "type": fit.dtype,
            "exponent": digits(fit.exponent),
            "fitted over": fit.range_text,
            "exponent in the source": "" if fit.printed is None else digits(fit.printed),
            "noisy": f"{fit.noisy} of {len(fit.lengths)} times" if fit.noisy else "",
        }
        row |= {
            f"{tokens_label(first)} → {tokens_label(second)}": f"×{digits(factor)}"
            for first, second, factor, _ in fit.steps
        }
        rows.append(row)
    data = pd.DataFrame(rows).fillna("")
    one = data["device"].nunique() == 1
    return data[
        [name for name in data.columns if (data[name] != "").any() and not (one and name == "device")]
    ]
