"""Commands that look: at the runs kept on this machine, and at the machine."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from lab import runs as store
from lab.cli.computed import with_computed
from lab.cli.exits import CRASHED, fail, usage_errors
from lab.cli.measure import print_run
from lab.cli.tables import MOST_ROWS, printed_table, run_line, runs_table
from lab.runs.store import runs_folder


def list_all(as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False) -> None:
    """List the runs kept on this machine, newest first, and the bundled reference runs."""
    found = (*store.list_runs(), *store.reference_runs())
    if as_json:
        typer.echo(json.dumps([run_line(run) for run in found], allow_nan=False))
    else:
        console = Console()
        console.print(runs_table(found, console.width))
        typer.echo(f"\nKept in {runs_folder()}; `show RUN` prints one.")
    for sentence in store.unreadable():
        typer.echo(f"Warning: {sentence}", err=True)


def find(run: str) -> store.Run:
    """Load a run of this machine, a bundled one, or one from a file.

    Args:
        run: its identifier, or a path.

    Raises:
        ValueError: there is no such run, or it cannot be read.
    """
    if not run.strip():
        raise ValueError(f"run is {run!r}; it must be a run's identifier or the path of a run file")
    bundled = {known.run_id: known for known in store.reference_runs()}
    return bundled.get(run) or store.load(run)


def show(
    run: Annotated[str, typer.Argument(help="A run's identifier, or a run file.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="The run file; in tables, fits and confidence.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help=f"Every point, not the first {MOST_ROWS} of each experiment.")
    ] = False,
) -> None:
    """Show one run: its points as tables, of a calibration the rates with their confidence.

    With --json fitted exponents and the confidence of a calibration are added to the run's "tables".
    """
    with usage_errors():
        found = find(run)
    if as_json:
        # In ASCII, so that no terminal or pipe has to replace a character
        typer.echo(json.dumps(json.loads(store.to_text(with_computed(found))), indent=1, allow_nan=False))
        return
    console = Console()
    if found.title is not None:
        console.print(found.title, markup=False, highlight=False)
    if found.recorded_on is not None and not found.points:
        console.print(printed_table(found))
        console.print(f"{found.message}\n", markup=False, highlight=False)
    print_run(console, found, None if every else MOST_ROWS)


def env(as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False) -> None:
    """Describe the device that measures on this machine: kernels, types, memory, versions."""
    from lab.measure.machine import describe

    found = describe(store.JobSpec("selftest"))
    if found is None:
        fail("the measuring process could not describe this machine; is torch installed?", CRASHED)
    if as_json:
        typer.echo(json.dumps(found, allow_nan=False))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in found.items():
        table.add_row(name.replace("_", " "), _words(value))
    Console().print(table)
    # For people alone: run files and what other programs read name no folder of this machine.
    typer.echo(f"\nRuns are kept in {runs_folder()}; LAB_HOME moves the folder above it.")


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "not known" if value is None else str(value)
