"""The measuring commands: one for each experiment, all with the same options."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from lab.cli import options
from lab.cli.computed import print_calibrations
from lab.cli.exits import EXIT_CODES_HELP, exit_code, usage_errors
from lab.cli.tables import MOST_ROWS, kernel_lines, points_tables, reason_lines, warning_lines
from lab.cost import catalog
from lab.measure.execution import Event, Execution
from lab.runs import JobSpec, Point, Run, default_spec
from lab.runs.readings import reading

EXPERIMENT_HELP = {
    "memory": "Peak memory of each implementation against the context.",
    "scaling": "Time, kernel, error and peak memory of each implementation against the context.",
    "decode": "One new token against a cache: time by context and batch.",
    "calibrate": "The rates of this device that predictions are made of.",
    "backends": "Which backend runs and which refuses, by type, mask, width and heads, in PyTorch's words.",
    "first_call": "The first call in a fresh process against the same call warm.",
    "model": "Hugging Face's GPT-2, eager against SDPA: time, peak memory, difference of the logits.",
    "cpu": "What the CPU alone can show: backends, memory, scaling, causal and decode in one go.",
    "all": "Every experiment in one run; with --quick in about two minutes.",
    "flops": "FLOPs of a model's real modules, counted by PyTorch, against the formulas.",
    "training": "Forward and backward against forward alone: time and memory.",
    "causal": "Causal against full attention: what the mask saves or costs each implementation.",
    "mask": "An explicit mask against is_causal: does the fast kernel stay? And masking fewer rows.",
    "gqa": "Grouped-query attention: time and memory by number of KV heads.",
    "split_kv": "One decode step whole and with its cache split along T: does a lone sequence gain?",
    "accuracy": "Errors against float64 by type and kind of input, with fp32 intermediates and without.",
    "kv_int8": "What a cache stored in 8 or 4 bits costs in accuracy.",
    "windowed": "Sliding windows: computed in blocks, and as a T x T mask.",
    "selftest": "Naive attention against PyTorch's own at four short lengths: a few seconds.",
}


def epilog(experiment: str) -> str:
    """Return what stands below the options: the experiment's own defaults, and the exit codes."""
    spec = default_spec(experiment)
    lengths, batches = (",".join(map(str, values)) for values in (spec.lengths, spec.batches))
    return f"Defaults here: --lengths {lengths} --batches {batches} --rounds {spec.rounds}. {EXIT_CODES_HELP}"


def numbers(text: str | None, name: str) -> tuple[int, ...] | None:
    """Read whole numbers separated by commas.

    Raises:
        ValueError: anything else.
    """
    if text is None:
        return None
    try:
        return tuple(int(part.strip()) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{name} is {text!r}; it must be whole numbers separated by commas") from None


def words(text: str | None) -> tuple[str, ...] | None:
    """Read names separated by commas; an empty one is left to be refused."""
    return None if text is None else tuple(name.strip() for name in text.split(","))


def known_model(model: str | None) -> None:
    """Refuse a model that the catalogue does not have, before anything starts.

    Raises:
        ValueError: no model of that name.
    """
    if model is not None:
        catalog.model(model)


def command_for(experiment: str) -> Callable[..., None]:
    """Make the command that runs one experiment."""

    def command(
        device: options.Device = "auto",
        dtype: options.Dtype = "auto",
        lengths: options.Lengths = None,
        batches: options.Batches = None,
        heads: options.Heads = None,
        kv_heads: options.KvHeads = None,
        head_dim: options.HeadDim = None,
        causal: options.Causal = True,
        implementations: options.Implementations = None,
        rounds: options.Rounds = None,
        repeats: options.Repeats = None,
        threads: options.Threads = None,
        seed: options.Seed = None,
        model: options.Model = None,
        cache: options.Cache = "auto",
        page_faults: options.PageFaults = False,
        quick: options.Quick = False,
        json_lines: options.JsonLines = False,
    ) -> None:
        groups = kv_heads if kv_heads is not None else heads
        shape = {"heads": heads, "kv_heads": groups, "head_dim": head_dim, "causal": causal, "model": model}
        clock = {"rounds": rounds, "repeats": repeats, "threads": threads, "seed": seed, "cache": cache}
        with usage_errors():
            known_model(model)
            spec = default_spec(
                experiment,
                device=device,
                dtype=dtype,
                lengths=numbers(lengths, "lengths"),
                batches=numbers(batches, "batches"),
                implementations=words(implementations),
                warm_heap=not page_faults,
                quick=quick,
                **shape,
                **clock,
            )
        raise typer.Exit(exit_code((measure_to_json_lines if json_lines else measure_for_people)(spec)))

    return command


@contextlib.contextmanager
def cancelling(execution: Execution) -> Iterator[None]:
    """Let Ctrl-C or a request to end stop the measuring process and keep its points, instead of raising."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = [signal.signal(number, lambda *_: execution.cancel()) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, handler)


def measure_to_json_lines(spec: JobSpec) -> Run:
    """Run a job, printing each event as one line of JSON; the last one names the run."""

    def tell(event: Event, run: Run) -> None:
        if event["event"] == "point":
            event = event | {"point": _point_now(event["point"], run)}
        if event["event"] == "end":
            event = event | {"run_id": run.run_id}
        typer.echo(json.dumps(event, allow_nan=False))

    execution = Execution(spec, tell)
    with cancelling(execution):
        return execution.execute()


def _point_now(point: dict[str, Any], run: Run) -> dict[str, Any]:
    """The point with all that is known of it so far, and whether it is accepted."""
    try:
        key = Point.from_dict(point).key
    except ValueError:  # the run has a warning that says so
        return point
    known = next((known for known in run.points if known.key == key), None)
    return point if known is None else known.to_dict() | {"accepted": known.accepted}


def measure_for_people(spec: JobSpec) -> Run:
    """Run a job with a progress bar, then print its table."""
    console = Console()
    columns = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("starting", total=None)

        def tell(event: Event, run: Run) -> None:
            if event["event"] in ("progress", "plan"):
                progress.update(
                    bar,
                    total=event["total"] or None,
                    completed=event.get("done", 0),
                    description=event.get("what", "starting"),
                )

        execution = Execution(spec, tell)
        with cancelling(execution):
            run = execution.execute()
    print_run(console, run)
    return run


def print_run(console: Console, run: Run, most: int | None = MOST_ROWS) -> None:
    """Print a run for people: points, rates, warnings, where it is kept.

    Args:
        console: where to.
        run: any run.
        most: points of an experiment, at most; None for all.
    """
    recorded = run.recorded_on is not None
    read = reading(run)
    for experiment in dict.fromkeys(point.experiment for point in run.points):
        found = [point for point in run.points if point.experiment == experiment]
        title, tables = points_tables(found, console.width, recorded=recorded, most=most)
        if title:
            console.print(title, markup=False, highlight=False)
        for table in tables:
            console.print(table)
            console.print()
        if most is not None and len(found) > most:
            left_out = f"{len(found) - most:,} of {len(found):,} points are left out; show --all prints them."
            console.print(left_out, markup=False, highlight=False)
        for line in (*kernel_lines(found), *reason_lines(found), *warning_lines(found)):
            console.print(line, markup=False, highlight=False)
        for sentence in read.get(experiment, ()):
            console.print(f"· {sentence}", markup=False, highlight=False)
        console.print()
    print_calibrations(console, run, tables=most is None or not run.points)
    for warning in run.warnings:
        console.print(f"Warning: {warning}", style="yellow", markup=False)
    ending = f"{run.status}: {run.message}" if run.message else run.status
    if recorded:
        ending = f"recorded, from: {run.source}"
    console.print(f"Run {run.run_id} on {run.device_label} · {ending}", markup=False)
