"""`python -m lab validate`: predictions against measurements, every cell and every constant in tables.

Three parts: the chapter's card and published tables (recorded, always the same), and this machine (calibrated
and measured now, in a child process). Exit code 1 when a stated limit is missed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.cli.exits import CRASHED, REFUSED, fail
from lab.cli.validation_files import kept, read_events
from lab.cli.validation_tables import cell_table, constant_table, score_table, table, verdict
from lab.cost.calibration import Calibration
from lab.cost.catalog import card, model
from lab.cost.chapter_card import SHEET_ID, chapter_calibration, sheet_calibration
from lab.cost.chapter_score import (
    causal_cells,
    decode_cells,
    gpt2_cells,
    left_out_fused,
    prefill_cells,
    sheet_cells,
)
from lab.cost.confidence import left_out_cells
from lab.cost.published_score import sheet_cells as published_sheet_cells
from lab.cost.published_score import waves_cells
from lab.cost.score import Cell, score

DATA = Path(__file__).resolve().parents[1] / "data"
CHILD = (sys.executable, "-m", "lab.measure.validate")


def validate(
    machine: Annotated[bool, typer.Option(help="Calibrate and measure this machine too (minutes).")] = True,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or a numbered one.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; all when not given.")] = None,
    rounds: Annotated[int, typer.Option(min=3, max=100, help="Timed rounds of a cell.")] = 9,
    patience: Annotated[float, typer.Option(min=0, help="Seconds to wait for a quiet machine.")] = 120.0,
    cells: Annotated[bool, typer.Option(help="Show every cell, not only means and worst cells.")] = True,
    save: Annotated[Path | None, typer.Option(help="Write the machine's cells and calibration here.")] = None,
    load: Annotated[Path | None, typer.Option(help="Show a file written by --save; measure nothing.")] = None,
) -> None:
    """Compare predicted with measured times: the chapter's card, published tables, this machine."""
    verdicts = chapter_part(cells) + published_part(cells)
    events: list[dict[str, Any]] = []
    if load is not None:
        events = read_events(load)
    elif machine:
        grid = {"device": device, "threads": threads, "rounds": rounds, "patience_s": patience}
        events = list(kept(measured(grid), save))
    if events:
        verdicts += machine_part(events, cells)
    typer.echo("\n## Verdicts\n\n" + "\n".join(f"- {line}" for line in verdicts))
    if any(line.startswith("MISSED") for line in verdicts):
        raise typer.Exit(1)


def chapter_part(show_cells: bool) -> list[str]:
    """Print the chapter's card: constants, cells, scores.

    Args:
        show_cells: whether every cell is shown.

    Returns:
        The verdicts on the stated limits.
    """
    recorded = json.loads((DATA / "chapter_measurements.json").read_text("utf-8"))
    sheet = card(SHEET_ID)
    _heading("The chapter's card: constants")
    typer.echo(constant_table(chapter_calibration(recorded, sheet, "fp16")))
    prefill, decode = prefill_cells(recorded, sheet), decode_cells(recorded, sheet)
    _part("The chapter's card: prefill", prefill, show_cells)
    _part("The chapter's card: decode", decode, show_cells)
    _part("The chapter's card: causal / full", causal_cells(recorded, sheet), show_cells, ratios=True)
    _part("The chapter's card: GPT-2, fp32", gpt2_cells(recorded, sheet, model("gpt2")), show_cells)
    _part("The chapter's card: another cell fitted (confidence)", left_out_fused(recorded, sheet), False)
    alone = sheet_cells(recorded, sheet)
    _heading("The chapter's card: constants of its data sheet alone")
    typer.echo(constant_table(sheet_calibration(sheet, "fp16")))
    _part("The chapter's card: prefill from its data sheet alone", alone, show_cells)
    return [
        verdict("the chapter's card, prefill", score(prefill), 0.07),
        verdict("the chapter's card, decode", score(decode), 0.07),
        verdict("the chapter's card, prefill from the data sheet alone", score(alone), 0.25),
    ]


def published_part(show_cells: bool) -> list[str]:
    """Print published tables of other cards: scores only, no limit was stated beforehand.

    Args:
        show_cells: whether every cell is shown.

    Returns:
        The verdicts on the stated limits.
    """
    tables = json.loads((DATA / "published_tables.json").read_text("utf-8"))
    waves = waves_cells(tables, card("a100-sxm-80"))
    sheet = published_sheet_cells(tables, card("h100-sxm"))
    _part("A100, Flash-Decoding's table: decode without splits, in waves", waves, show_cells)
    _part("H100, FlashAttention-2 forward from the data sheet alone", sheet, show_cells)
    return [verdict("H100, FlashAttention-2 forward from the data sheet alone", score(sheet), 0.25)]


def machine_part(events: Iterable[dict[str, Any]], show_cells: bool) -> list[str]:
    """Print this machine: constants, cells, scores, confidence.

    Args:
        events: of `lab.measure.validate`.
        show_cells: whether every cell is shown.

    Returns:
        The verdicts on the stated limits.
    """
    found = list(events)
    calibrations = [Calibration.from_dict(e["calibration"]) for e in found if e["event"] == "calibration"]
    rows = [event for event in found if event["event"] == "cell"]
    for calibration in calibrations:
        _heading(f"This machine: constants, {calibration.dtype}, {calibration.device}")
        typer.echo(constant_table(calibration))
    confidence = [cell for calibration in calibrations for cell in left_out_cells(calibration)]
    _part("This machine: one calibrated length left out (confidence)", confidence, False)
    verdicts = []
    for kind in ("prefill", "decode"):
        kept = [row for row in rows if row["kind"] == kind and row["fault"] is None and not row["noise"]]
        compared = [_cell(row) for row in kept]
        if not compared:
            continue
        _part(f"This machine: {kind}", compared, show_cells)
        if kind == "prefill":
            verdicts.append(verdict("this machine, prefill", score(compared), 0.10, 0.20))
    left_out = [
        (f"{row['implementation']} {row['dtype']}, {_label(row)}", row["fault"] or row["noise"])
        for row in rows
        if row["fault"] or row["noise"]
    ]
    if left_out:
        _heading("This machine: cells not scored")
        typer.echo(table(("cell", "why"), left_out))
        verdicts.append(
            f"{'MISSED' if rows else 'met'}: {len(left_out)} of {len(rows)} cells were not scored"
        )
    return verdicts


def measured(grid: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Run the grid in a child process and yield its events, telling progress on standard error.

    Args:
        grid: fields of `lab.measure.validate.Grid` that differ from its defaults.

    Yields:
        "calibration" and "cell" events.

    Raises:
        typer.Exit: the grid was refused, or the child crashed: its last words are on standard error.
        KeyboardInterrupt: the caller was interrupted; the child, which hears of no Ctrl-C, is ended.
    """
    process = subprocess.Popen(
        CHILD,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        start_new_session=True,  # Ctrl-C in a terminal is the parent's to answer
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # the same on Windows
    )
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the child has no pipes")
    with process:
        try:
            process.stdin.write(json.dumps(grid) + "\n")
            process.stdin.flush()
            yield from _told(process.stdout)
        except (KeyboardInterrupt, GeneratorExit):
            process.terminate()
            raise
        typer.echo("\r\033[K", err=True, nl=False)
    if process.returncode:
        fail(f"the measuring process ended with exit code {process.returncode}", CRASHED)


def _told(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield what the child found, and tell its progress."""
    for line in lines:
        event = json.loads(line)
        if event["event"] == "error":
            fail(event["message"], REFUSED)
        elif event["event"] == "progress":
            typer.echo(f"\r\033[K{event['what']}", err=True, nl=False)
        else:
            yield event


def _cell(row: dict[str, Any]) -> Cell:
    return Cell(f"{row['implementation']} {row['dtype']}", _label(row), row["predicted_s"], row["measured_s"])


def _label(row: dict[str, Any]) -> str:
    mask = "" if row["kind"] == "decode" else ", causal" if row["causal"] else ", full"
    batch = f"batch {row['batch']}, " if row["kind"] == "decode" else ""
    return f"{batch}T = {row['kv_len']}{mask}"


def _part(title: str, compared: list[Cell], show_cells: bool, ratios: bool = False) -> None:
    if not compared:
        return
    _heading(title)
    if show_cells:
        typer.echo(cell_table(compared, ratios) + "\n")
    typer.echo(score_table(compared))


def _heading(title: str) -> None:
    typer.echo(f"\n## {title}\n")
