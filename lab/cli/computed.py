"""What is computed from a run when it is shown, and stored nowhere: fitted exponents, rates and their confidence."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table

from lab.cost.calibration import Calibration
from lab.cost.formulas import fit_exponent
from lab.runs import Run
from lab.runs.calibrations import calibrations_of
from lab.runs.readings.confidence import confidence, confidence_words, worst_cell
from lab.runs.readings.masks import fitted_groups
from lab.runs.readings.sides import kind_of

SHARE = "1"
"""The unit of a figure that has none."""


def with_computed(run: Run) -> Run:
    """Return a run measured by the lab with what is computed from it among its tables, as "fits" and "confidence".

    Args:
        run: any run; a recorded one, or one with nothing to compute, comes back as it is.

    Returns:
        The run; it can be written and read like any other. Of a damaged calibration it has no confidence.
    """
    if run.recorded_on is not None:
        return run
    found: dict[str, Any] = {"fits": fits(run)}
    with contextlib.suppress(ValueError):
        found["confidence"] = confidence_figures(run)
    return replace(run, tables=run.tables | {name: figures for name, figures in found.items() if figures})


def fits(run: Run) -> list[dict[str, Any]]:
    """Give the exponents that the readings of a run tell, as JSON values.

    Args:
        run: any run.

    Returns:
        One for each implementation, number type, mask and batch with enough lengths: time grows as T to the exponent
        from the shortest to the longest.
    """
    scaling = [point for point in run.points if point.experiment == "scaling"]
    found = []
    for points in fitted_groups(scaling, kind_of(run)):
        first = points[0]
        lengths = [point.kv_len for point in points]
        seconds = [point.timing.median_s for point in points if point.timing]
        found.append(
            {
                "implementation": first.implementation,
                "dtype": first.dtype,
                "causal": first.causal,
                "batch": first.batch,
                "shortest": lengths[0],
                "longest": lengths[-1],
                "points": len(points),
                "noisy_points": sum(point.status == "noisy" for point in points),
                "exponent": float(fit_exponent(lengths, seconds)),
            }
        )
    return found


def confidence_figures(run: Run) -> dict[str, dict[str, Any]]:
    """Give the leave-one-out errors of a run's calibrations as JSON values, by number type.

    Args:
        run: any run.

    Returns:
        Errors as shares of the time; none where the run calibrated nothing, or too few lengths.

    Raises:
        ValueError: a calibration is damaged.
    """
    found = {}
    for dtype, calibration in calibrations_of(run).items():
        scored = confidence(calibration)
        if scored is not None:
            found[dtype] = {
                "cells": scored.cells,
                "mean_absolute_error": scored.mean_absolute_error,
                "bias": scored.bias,
                "worst_error": scored.worst.error,
                "worst_cell": worst_cell(scored.worst),
            }
    return found


def print_calibrations(console: Console, run: Run, *, tables: bool) -> None:
    """Print what a run found of the device's rates, for people.

    Args:
        console: where to.
        run: any run; one that calibrated nothing prints nothing.
        tables: whether every rate is printed; else how many there are.
    """
    try:
        found = calibrations_of(run)
    except ValueError as error:
        console.print(f"Warning: {error}", style="yellow", markup=False)
        return
    for dtype, calibration in found.items():
        own = replace(calibration, wide=None) if _is_beside(calibration, found) else calibration
        rates = list(_rates(own))
        title = f"Rates of {calibration.device}, {dtype}{_threads(calibration)}"
        console.print(title, markup=False, highlight=False)
        if tables:
            console.print(_table(rates))
        else:
            console.print(f"{len(rates)} figures; show --all prints them.", markup=False, highlight=False)
        console.print(confidence_words(calibration), markup=False, highlight=False)
        console.print()


def _is_beside(calibration: Calibration, others: dict[str, Calibration]) -> bool:
    """Whether the accumulator's calibration has a table of its own."""
    return calibration.wide is not None and calibration.wide == others.get(calibration.wide.dtype)


def _threads(calibration: Calibration) -> str:
    if calibration.threads is None:
        return ""
    return f", {calibration.threads} thread{'' if calibration.threads == 1 else 's'}"


def _rates(calibration: Calibration) -> Iterator[tuple[str, str, str]]:
    for name, value, unit, source in calibration.constants():
        yield name, value if unit == SHARE else f"{value} {unit}", source


def _table(rates: list[tuple[str, str, str]]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("figure", no_wrap=True)
    table.add_column("value", no_wrap=True)
    table.add_column("source")
    for row in rates:
        table.add_row(*row)
    return table
