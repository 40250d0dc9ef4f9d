"""Two runs side by side: the same cells on two machines, versions or days, with a verdict for each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from lab.cli.exits import REFUSED, fail, usage_errors
from lab.cli.runs import find
from lab.cli.tables import size_text, time_text
from lab.runs import Point, Run
from lab.runs.comparison import Compared, compare, differences

FirstRun = Annotated[str, typer.Argument(help="A run's identifier, or a run file.")]
WITH_PEAKS = 110
"""Columns of a terminal from which both peaks find room beside the times without words being cut."""

SecondRun = Annotated[str, typer.Argument(help="Another: the first is said to be faster or slower than it.")]


def compare_runs(
    first: FirstRun,
    second: SecondRun,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Compare two runs point by point: faster, slower or too close to call.

    The ratio is the first run's time over the second's, with its 95 % interval; under 2 % apart is a tie. Two runs
    are two processes, and the interval counts what processes of one machine differ by.
    """
    with usage_errors():
        runs = find(first), find(second)
    found, only_first, only_second = compare(*runs)
    both = tuple(replace(each, remarks=tuple(_apply(each.remarks, *runs))) for each in found)
    if as_json:
        said = [as_dict(each) for each in both]
        alone = {"only_first": len(only_first), "only_second": len(only_second)}
        conditions = {"runs": [conditions_of(run) for run in runs], "differences": list(differences(*runs))}
        typer.echo(json.dumps({"points": said, **alone, **conditions}, allow_nan=False))
    if not both:
        fail("the two runs have no cell in common: shapes, types, masks and experiments must agree", REFUSED)
    if not as_json:
        print_comparison(Console(), runs, both, only_first, only_second)


def _apply(remarks: Iterable[str], first: Run, second: Run) -> Iterator[str]:
    """Leave out that a recorded point is not accepted: the lab's rule is for what it measured itself."""
    recorded = [
        f"{name} is not accepted" for name, run in (("first", first), ("second", second)) if run.recorded_on
    ]
    return (remark for remark in remarks if remark not in recorded)


def as_dict(each: Compared) -> dict[str, Any]:
    """Give a compared cell as JSON values.

    Args:
        each: the cell.
    """
    ratio = each.ratio
    return {
        "experiment": each.first.experiment,
        "cell": cell_text(each.first),
        "ratio": None if ratio is None else ratio.value,
        "low": None if ratio is None else ratio.low,
        "high": None if ratio is None else ratio.high,
        "verdict": None if ratio is None else ratio.verdict,
        "first": each.first.to_dict(),
        "second": each.second.to_dict(),
        "remarks": list(each.remarks),
    }


def conditions_of(run: Run) -> dict[str, Any]:
    """Give what a run was measured on and how, as JSON values; None for what it does not say.

    Args:
        run: any run.
    """
    names = ("torch", "threads", "allocator", "cache")
    said = {name: run.environment.get(name) for name in names}
    return {"run_id": run.run_id, "device": run.device_label, **said}


def header(which: str, run: Run) -> str:
    """Say in one line which run it is, on which device, and how it was measured.

    Args:
        which: "First" or "Second".
        run: any run.
    """
    found = conditions_of(run)
    said = [
        f"{name} {'not known' if found[name] is None else str(found[name]).partition(':')[0]}"
        for name in ("torch", "threads", "allocator", "cache")
    ]
    return f"{which}: {run.run_id} on {run.device_label}, {', '.join(said)}"


def print_comparison(
    console: Console,
    runs: tuple[Run, Run],
    both: tuple[Compared, ...],
    only_first: tuple[Point, ...],
    only_second: tuple[Point, ...],
) -> None:
    """Print a comparison for people.

    Args:
        console: where to.
        runs: first and second.
        both: the cells both have.
        only_first: points of the first run alone.
        only_second: points of the second alone.
    """
    for which, run in zip(("First", "Second"), runs, strict=True):
        console.print(header(which, run), markup=False, highlight=False, soft_wrap=True)
    for difference in differences(*runs):
        console.print(f"The runs differ in {difference}", markup=False, highlight=False, soft_wrap=True)
    shared = _shared(both)
    for remark in shared:
        console.print(f"In every cell, {remark}", markup=False, highlight=False, soft_wrap=True)
    wide = console.width >= WITH_PEAKS
    for experiment in dict.fromkeys(each.first.experiment for each in both):
        table = Table(box=None, pad_edge=False)
        table.add_column("cell")
        for name in ("first", "second", "ratio", *(("peaks",) if wide else ())):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("verdict")
        for each in both:
            if each.first.experiment == experiment:
                table.add_row(*_row(each, shared, wide=wide))
        console.print(f"\nexperiment {experiment}", markup=False, highlight=False)
        console.print(table)
    if not wide and any(each.first.peak_extra_bytes for each in both):
        console.print(f"Peaks of memory: in {WITH_PEAKS} columns or more, and in --json.", markup=False)
    for which, points in (("first", only_first), ("second", only_second)):
        if points:
            found = "1 point" if len(points) == 1 else f"{len(points)} points"
            verb = "is" if len(points) == 1 else "are"
            console.print(f"{found} of the {which} run {verb} not in the other.", markup=False)


def _shared(both: tuple[Compared, ...]) -> tuple[str, ...]:
    """What is remarked of every cell whose times are compared, if of several: told once, not in each row."""
    remarked = [each.remarks for each in both if each.ratio is not None]
    if len(remarked) < 2:
        return ()
    return tuple(text for text in remarked[0] if all(text in others for others in remarked))


def _row(each: Compared, shared: tuple[str, ...], *, wide: bool) -> tuple[str, ...]:
    times = (
        time_text(point.timing.median_s if point.timing else None) for point in (each.first, each.second)
    )
    peaks = [size_text(point.peak_extra_bytes) for point in (each.first, each.second)]
    ratio = "" if each.ratio is None else each.ratio.text
    verdict = "" if each.ratio is None else each.ratio.verdict
    memory = peaks[0] if peaks[0] == peaks[1] else " / ".join(peak or "?" for peak in peaks)
    told = [remark for remark in each.remarks if remark not in shared]
    said = "; ".join(part for part in (verdict, *told) if part)
    return (cell_text(each.first), *times, ratio, *((memory,) if wide else ()), said)


def cell_text(point: Point) -> str:
    """Name a cell in words.

    Args:
        point: of the cell.
    """
    batch = f"batch {point.batch} " if point.batch > 1 else ""
    heads = f"{point.heads}/{point.kv_heads} heads " if point.kv_heads != point.heads else ""
    mask = "causal" if point.causal else "full"
    queries = "" if point.q_len == point.kv_len else f"{point.q_len:,} x "
    variant = f" ({point.variant})" if point.variant else ""
    shape = f"{batch}{heads}{queries}{point.kv_len:,}"
    return f"{point.implementation}{variant} {point.dtype} {mask} {shape}"
