"""Validation: which cells are measured, which count, and what the command prints. No clock is tested here."""

import dataclasses
import json

import pytest
import typer
from typer.testing import CliRunner

from lab.cli.validate import kept, machine_part, read_events, validate
from lab.cli.validation_tables import cell_table, error_text, score_table, seconds_text, table, verdict
from lab.cost.score import FITTED, Cell, score
from lab.measure import validate as module
from lab.measure.samples import Samples
from lab.measure.validate import Grid, grid_from_json, run
from tests.cost.calibrations import cpu, promoting

TINY = Grid(device="cpu", lengths=(16,), decode=((2, 24),), heads=2, head_dim=8, rounds=3, patience_s=0)
APP = typer.Typer()
APP.command()(validate)


@pytest.fixture
def recorded(monkeypatch):
    """Run a tiny grid with a made-up calibration and a clock on which every call takes one second."""
    monkeypatch.setattr(
        module, "calibrate", lambda device, dtype, gate, **_: promoting() if dtype == "bf16" else cpu()
    )
    monkeypatch.setattr(module.allocator, "keep_heap", lambda: False)
    monkeypatch.setattr(module.allocator, "limit_memory", lambda free: False)
    monkeypatch.setattr(module.Quiet, "wait", lambda self: True)

    def timed(device, variants, protocol, gate, tell):
        for call in variants.values():
            call()
        return {name: Samples(3, 1, seconds=[1.0] * 3) for name in variants}

    monkeypatch.setattr(module, "time_variants", timed)

    def events(grid: Grid = TINY) -> list[dict]:
        told = []
        run(grid, told.append)
        return [json.loads(json.dumps(event)) for event in told]  # as they travel

    return events


def test_every_cell_of_the_grid_is_predicted_and_measured(recorded) -> None:
    cells = [event for event in recorded() if event["event"] == "cell"]
    found = {(c["kind"], c["dtype"], c["implementation"], c["causal"]) for c in cells}
    names = TINY.implementations
    prefill = {("prefill", d, n, mask) for d in TINY.dtypes for n in names for mask in (False, True)}
    decode = {("decode", d, n, False) for d in TINY.dtypes for n in names}
    assert found == prefill | decode
    assert len(cells) == len(found)
    assert all(c["fault"] is None and c["measured_s"] == 1.0 and c["predicted_s"] > 0 for c in cells)


def test_calibrations_come_before_cells_and_the_accumulators_is_reused(recorded, monkeypatch) -> None:
    asked = []

    def calibrate(device, dtype, gate, wide=None, quiet=None, tell=None):
        asked.append((dtype, wide))
        return promoting() if dtype == "bf16" else cpu()

    monkeypatch.setattr(module, "calibrate", calibrate)
    events = [event["event"] for event in recorded() if event["event"] != "progress"]
    assert events == ["calibration"] * 2 + ["cell"] * 24
    assert asked == [("fp32", None), ("bf16", cpu())]


def test_a_wrong_answer_does_not_count(recorded, monkeypatch) -> None:
    entry = module.IMPLEMENTATIONS["naive"]
    wrong = dataclasses.replace(entry, function=lambda q, k, v, causal: entry.function(q, k, v, causal=False))
    monkeypatch.setitem(module.IMPLEMENTATIONS, "naive", wrong)
    naive = [c for c in recorded() if c["event"] == "cell" and c["implementation"] == "naive"]
    assert all("rows differ from float64" in c["fault"] for c in naive if c["causal"])
    assert all(c["fault"] is None for c in naive if not c["causal"])
    assert all("measured_s" not in c for c in naive if c["causal"])


def test_another_kernel_than_asked_for_does_not_count(recorded, monkeypatch) -> None:
    entry = module.IMPLEMENTATIONS["flash"]
    math_instead = dataclasses.replace(entry, function=module.IMPLEMENTATIONS["math"].function)
    monkeypatch.setitem(module.IMPLEMENTATIONS, "flash", math_instead)
    flash = [c for c in recorded() if c["event"] == "cell" and c["implementation"] == "flash"]
    assert {c["fault"] for c in flash} == {"flash was asked for, math ran"}


def test_a_cell_that_does_not_fit_in_memory_is_refused_before_it_runs(recorded, monkeypatch) -> None:
    monkeypatch.setattr(module.allocator, "usable_bytes", lambda free: 1)
    cells = [c for c in recorded() if c["event"] == "cell"]
    assert all("of memory" in c["fault"] for c in cells)


def test_disturbed_cells_are_measured_again_while_patience_lasts(recorded, monkeypatch) -> None:
    tries = []

    def timed(device, variants, protocol, gate, tell):
        tries.append(sorted(variants))
        busy = 3 if len(tries) == 1 else 0
        return {
            name: Samples(3, 1, seconds=[9.0 if busy else 1.0] * 3, busy=busy if "math" in name else 0)
            for name in variants
        }

    monkeypatch.setattr(module, "time_variants", timed)
    grid = dataclasses.replace(TINY, dtypes=("fp32",), decode=(), patience_s=60)
    cells = {(c["implementation"], c["causal"]): c for c in recorded(grid) if c["event"] == "cell"}
    assert tries[1] == ["math causal", "math full"]
    assert cells["math", True]["measured_s"] == 1.0
    assert cells["naive", True]["measured_s"] == 9.0  # was not disturbed, so it stands


def test_cells_that_stay_disturbed_are_told_as_such(recorded, monkeypatch) -> None:
    monkeypatch.setattr(
        module,
        "time_variants",
        lambda device, variants, *_: {name: Samples(3, 1, seconds=[1.0] * 3, busy=3) for name in variants},
    )
    cells = [c for c in recorded() if c["event"] == "cell"]
    assert {c["noise"] for c in cells} == {"3 of 3 blocks were timed while the machine was busy"}


def test_grids_travel_as_json() -> None:
    text = json.dumps({"device": "cpu", "lengths": [8], "decode": [[1, 4]], "threads": 1})
    assert grid_from_json(text) == Grid(device="cpu", lengths=(8,), decode=((1, 4),), threads=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"lenghts": [8]}', "a grid has no lenghts"),
        ('{"dtypes": ["fp8"]}', "dtypes must be among fp64, fp32, bf16, fp16, got 'fp8'"),
        ('{"implementations": ["sdpa"]}', "implementations must be among naive, naive_inplace, math, flash"),
    ],
)
def test_bad_grids_are_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        grid_from_json(text)


def row(**changes) -> dict:
    cell = {"event": "cell", "kind": "prefill", "implementation": "naive", "dtype": "fp32", "batch": 1}
    cell |= {
        "kv_len": 512,
        "causal": True,
        "fault": None,
        "noise": None,
        "predicted_s": 1.1,
        "measured_s": 1.0,
    }
    return cell | changes


def test_the_machines_verdict_needs_the_mean_and_every_cell() -> None:
    within = machine_part([row(), row(predicted_s=0.92)], True)
    assert within == [
        "met: this machine, prefill: mean 9.0%, worst +10.0% (naive fp32, T = 512, causal), 2 cells; "
        "mean at most 10%, no cell over 20%"
    ]
    beyond = machine_part([row(predicted_s=1.25)] + [row(predicted_s=1.0)] * 9, True)
    assert beyond[0].startswith("MISSED: this machine, prefill: mean 2.5%, worst +25.0%")


def test_noisy_and_faulty_cells_are_listed_and_not_scored(capsys) -> None:
    faulty = {key: value for key, value in row(fault="refused").items() if key != "measured_s"}
    lines = machine_part([row(predicted_s=1.05), row(noise="busy", predicted_s=9.0), faulty], True)
    assert lines[0].startswith("met: this machine, prefill: mean 5.0%")
    assert lines[1] == "MISSED: 2 of 3 cells were not scored"
    printed = capsys.readouterr().out
    assert "cells not scored" in printed
    assert "| naive fp32, T = 512, causal | refused |" in printed


def test_the_command_prints_recorded_parts_without_measuring() -> None:
    result = CliRunner().invoke(APP, ["--no-machine"])
    assert result.exit_code == 0, result.output
    assert "met: the chapter's card, prefill: mean 6.7%" in result.output
    assert "met: the chapter's card, decode: mean 3.3%" in result.output
    assert "met: the chapter's card, prefill from the data sheet alone: mean 17.6%" in result.output
    assert "cell: efficient fp16 causal T = 4096, 1.52 ms" in result.output
    assert "printed: copy bandwidth" in result.output


def test_a_missed_limit_is_an_exit_code(tmp_path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text(json.dumps(row(predicted_s=2.0)) + "\n", encoding="utf-8")
    result = CliRunner().invoke(APP, ["--load", str(file), "--no-cells"])
    assert result.exit_code == 1
    assert "MISSED: this machine, prefill: mean 100.0%" in result.output


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--device", "cuda:77"], 3, "device is 'cuda:77', but"),
        (["--load", "missing.jsonl"], 2, "missing.jsonl cannot be read as the file of a validation"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_an_exit_code(options, code, message) -> None:
    result = CliRunner().invoke(APP, options)
    assert result.exit_code == code
    assert f"Error: {message}" in result.output
    assert "Traceback" not in result.output


def test_what_ends_early_keeps_its_events(tmp_path) -> None:
    def ending():
        yield row()
        raise typer.Exit(5)

    file = tmp_path / "events.jsonl"
    with pytest.raises(typer.Exit):
        list(kept(ending(), file))
    assert read_events(file) == [row()]
    assert list(kept([row()], None)) == [row()]


def test_tables_line_up_and_say_fitted_where_nothing_was_proved() -> None:
    cells = [Cell("a", "first", 1.1, 1.0), Cell("a", "second", 1.0, 1.0, FITTED)]
    lines = cell_table(cells).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "+10.0%" in lines[2]
    assert "fitted" in lines[3]
    assert error_text(cells[0]) == "+10.0%"
    assert "| a      | 1     | 10.0%" in score_table(cells)
    assert table(("x",), []) == "| x |\n|---|"
    assert verdict("it", score(cells), 0.05).startswith("MISSED: it: mean 10.0%")


@pytest.mark.parametrize(("seconds", "text"), [(2.5, "2.5 s"), (0.01234, "12.3 ms"), (25.6e-6, "25.6 µs")])
def test_times_have_three_figures_and_a_fitting_unit(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text
