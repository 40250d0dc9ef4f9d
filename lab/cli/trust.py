"""Commands that test the instrument itself: the clock against itself, and against other tools."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from lab.cli import options
from lab.cli.exits import CANCELLED, CRASHED, MISSED, OK, REFUSED, fail, usage_errors
from lab.cli.measure import numbers, words
from lab.cli.tables import time_text
from lab.measure.child import Child
from lab.measure.competitor import BURSTS, DISTURBED_PARTS, STEADY
from lab.measure.execution import machine_turn
from lab.measure.quiet import Quiet
from lab.runs import JobSpec, Point
from lab.runs.clocks import (
    BUSY,
    JUDGED,
    MOST_APART,
    TORCH_TIMER,
    TRITON_TIMER,
    Agreement,
    TwoClocks,
    agreements,
)
from lab.runs.spec import MAX_REPEATS
from lab.runs.trials import Disturbed, Null, Trial, disturbed_of, null_of, quiet_ranges, quiet_seconds

PATIENCE_S = 30.0  # for a quiet machine, before anything is timed
NULL_CELLS: dict[str, Any] = {"lengths": (64, 256, 1024), "implementations": ("naive", "flash")}
"""From about 100 microseconds to about 30 ms on a small server's CPU."""
DISTURBED_PASSES = {
    STEADY: 1,
    BURSTS: 4,
}  # bursts spare some blocks: whether the others are found is the test
CHECK_CELLS: dict[str, Any] = {"lengths": (256, 1024, 2048), "implementations": ("naive", "math", "flash")}
SHORT = {TORCH_TIMER: "torch", TRITON_TIMER: "triton"}
ENDINGS = {"refused": REFUSED, "cancelled": CANCELLED}

Trials = Annotated[int, typer.Option(min=6, max=600, help="How many trials, at least.")]
Disturb = Annotated[bool, typer.Option("--disturb", help="Afterwards again, beside competing processes.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]
Passes = Annotated[int, typer.Option(min=1, max=100, help="Times that both clocks read each cell.")]
FixedDtype = Annotated[str, typer.Option(help="fp32, bf16, fp16 or fp64.")]

Event = dict[str, Any]


def null(
    trials: Trials = 60,
    disturb: Disturb = False,
    device: options.Device = "auto",
    dtype: FixedDtype = "fp32",
    lengths: options.Lengths = None,
    implementations: options.Implementations = None,
    threads: options.Threads = None,
    as_json: AsJson = False,
) -> None:
    """Time every kernel against itself: how large a difference does the clock make up?

    Exit code 1 when a limit is missed, 3 when the machine was too busy to judge.
    """
    with usage_errors():
        spec = spec_of(NULL_CELLS, lengths, implementations, device=device, dtype=dtype, threads=threads)
        cells = len(spec.lengths) * len(spec.implementations)
        passes = -(-trials // cells)
        if passes > MAX_REPEATS:
            allowed = f"at most {MAX_REPEATS * cells:,} of {MAX_REPEATS} passes over {cells} cells"
            raise ValueError(f"trials is {trials:,}; it must be {allowed}")
        spec = replace(spec, repeats=passes)
    found = trials_of(spec, PATIENCE_S)
    beside: dict[str, Disturbed] = {}
    for kind, most in DISTURBED_PASSES.items() if disturb else ():
        events = observed(replace(spec, repeats=min(passes, most)), DISTURBED_PARTS[kind], "trial")
        quiet, timed = (
            [Trial.from_dict(event) for event in events if event["disturbed"] is which]
            for which in (False, True)
        )
        beside[kind] = disturbed_of(timed, quiet_ranges([*found, *quiet]))
    summary = null_of(found)
    if as_json:
        disturbed = {kind: asdict(each) for kind, each in beside.items()}
        typer.echo(json.dumps({**asdict(summary), "verdict": summary.verdict, "disturbed": disturbed}))
    else:
        print_null(Console(), found, summary, beside)
    raise typer.Exit(null_exit(summary, beside.values()))


def cross_check(
    passes: Passes = 3,
    device: options.Device = "auto",
    dtype: FixedDtype = "fp32",
    lengths: options.Lengths = None,
    implementations: options.Implementations = None,
    threads: options.Threads = None,
    as_json: AsJson = False,
) -> None:
    """Time the same calls by our protocol and by torch.utils.benchmark (on CUDA by Triton's timer too).

    Exit code 1 when a limit is missed, 3 when the machine was too busy to judge.
    """
    with usage_errors():
        spec = spec_of(CHECK_CELLS, lengths, implementations, device=device, dtype=dtype, threads=threads)
        spec = replace(spec, repeats=passes)
    events = observed(spec, "cross_check", "clocks", PATIENCE_S)
    found = agreements(TwoClocks.from_dict(event["clocks"]) for event in events)
    if as_json:
        typer.echo(json.dumps([asdict(each) | {"verdict": each.verdict} for each in found]))
    else:
        print_agreements(Console(), found)
    raise typer.Exit(check_exit(found))


def spec_of(cells: dict[str, Any], lengths: str | None, implementations: str | None, **more: Any) -> JobSpec:
    """Make the job of a test of the clock.

    Args:
        cells: lengths and implementations when none are asked for.
        lengths: as typed.
        implementations: as typed.
        more: further fields.

    Raises:
        ValueError: a value is not allowed.
    """
    chosen = {"lengths": numbers(lengths, "lengths"), "implementations": words(implementations)}
    stated = {name: value for name, value in chosen.items() if value is not None}
    return JobSpec("scaling", **cells | stated, **more)


def trials_of(spec: JobSpec, patience_s: float = 0.0) -> list[Trial]:
    """Run the null test in a child process.

    Args:
        spec: its cells, and its passes over them as repeats.
        patience_s: seconds to wait for a quiet machine.
    """
    return [Trial.from_dict(event) for event in observed(spec, "null", "trial", patience_s)]


def observed(spec: JobSpec, part: str, kind: str, patience_s: float = 0.0) -> list[Event]:
    """Run a part in a measuring child while no other job runs, telling progress on standard error.

    Args:
        spec: the job.
        part: of the worker.
        kind: the events wanted.
        patience_s: seconds to wait for a quiet machine.

    Returns:
        The events of that kind.

    Raises:
        typer.Exit: the child did not finish; why is on standard error.
    """
    if patience_s and spec.device not in ("auto", "cpu"):  # a device that is not there is not waited for
        observed(spec, "environment", "environment")
    found: list[Event] = []
    ending: Event = {}
    waiting = partial(_tell, "waiting for another measurement to end")
    with machine_turn(threading.Event(), waiting):
        if patience_s:
            Quiet(patience_s, _tell).wait()
        child = Child(spec, part)
        try:
            for event in child.events():
                if event["event"] == kind:
                    found.append(event)
                elif event["event"] == "progress":
                    _tell(str(event["what"]))
                elif event["event"] == "point":
                    _tell(_left_out(Point.from_dict(event["point"])) + "\n")
                elif event["event"] == "end":
                    ending = event
        finally:
            code = child.close()
    _tell("")
    if ending.get("status") != "finished":
        status, said = child.ending(code) or ("crashed", "the measuring process ended without a word")
        status, said = str(ending.get("status", status)), str(ending.get("message") or said)
        fail(said, ENDINGS.get(status, CRASHED))
    return found


def _left_out(point: Point) -> str:
    status = point.status.replace("_", " ")
    return f"{point.implementation} at T = {point.kv_len:,} is left out: {status}: {point.reason}"


def _tell(what: str) -> None:
    typer.echo(f"\r\033[K{what}", err=True, nl=False)


def print_null(
    console: Console, trials: Sequence[Trial], summary: Null, beside: dict[str, Disturbed]
) -> None:
    """Print what the null test found.

    Args:
        console: where to.
        trials: on the machine as it was.
        summary: of them.
        beside: what became of points beside competing processes, by their kind.
    """
    table = _table(("kind", "T", "time", "trials", "noisy", "median", "9 of 10", "most", "ties"))
    quiet_s = quiet_seconds(trials)
    for cell in dict.fromkeys(trial.cell for trial in trials):
        of = null_of(trial for trial in trials if trial.cell == cell)
        shares = (f"{value:.2%}" for value in (of.median, of.p90, of.most))
        counts = str(of.trials), str(of.trials - of.clean)
        table.add_row(
            cell[0], f"{cell[1]:,}", time_text(quiet_s.get(cell)), *counts, *shares, f"{of.ties:.0%}"
        )
    console.print(table)
    console.print(f"\nA kernel against itself: {summary.verdict}.", markup=False, highlight=False)
    for kind, found in beside.items():
        said = f"Beside processes that compute on every processor, {kind}: {found.verdict}."
        console.print(said, markup=False, highlight=False)
        for line in found.silent:
            console.print(f"  {line}", markup=False, highlight=False)


def null_exit(summary: Null, beside: Iterable[Disturbed]) -> int:
    """Give the exit code of the null test.

    Args:
        summary: of the trials without a disturbance.
        beside: of those with one.
    """
    if not summary.quiet:  # nor is there a time to hold the disturbed ones against
        return REFUSED
    if any(found.silent for found in beside):
        return MISSED
    return OK if summary.met else MISSED


def print_agreements(console: Console, found: Sequence[Agreement]) -> None:
    """Print how far two clocks agree.

    Args:
        console: where to.
        found: cell by cell.
    """
    table = _table(("kind", "T", "ours", "theirs", "ours/theirs", "clean", "tool", "verdict"))
    tools = dict.fromkeys(each.tool for each in found)
    for each in found:
        times = time_text(each.ours_s), time_text(each.theirs_s)
        clean = f"{each.clean} of {each.pairs}"
        cell = each.implementation, f"{each.kv_len:,}"
        table.add_row(*cell, *times, f"{each.ratio:.3f}", clean, SHORT[each.tool], each.verdict)
    console.print(table)
    console.print(f"\nLimit: {MOST_APART:.0%} apart, on a quiet machine.", markup=False, highlight=False)
    for tool in tools:
        note = "" if tool in JUDGED else "; it empties the card's cache before each call: shown, not judged"
        console.print(f"{SHORT[tool]}: {tool}{note}", markup=False, highlight=False)


def check_exit(found: Sequence[Agreement]) -> int:
    """Give the exit code of the cross-check.

    Args:
        found: cell by cell.
    """
    verdicts = {each.verdict for each in found}
    if "MISSED" in verdicts:
        return MISSED
    return OK if "met" in verdicts and BUSY not in verdicts else REFUSED


def _table(columns: Iterable[str]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in columns:
        left = name in ("kind", "tool", "verdict")
        table.add_column(name, justify="left" if left else "right", no_wrap=True)
    return table
