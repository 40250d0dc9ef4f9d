"""Comparing and exporting runs from the command line."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lab import runs
from lab.cli.app import app
from lab.runs import default_spec, new_run, save
from lab.runs.comparison import PROCESS_RATIO
from tests.runs.test_comparison import timed


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def kept(*points, **environment) -> str:
    run = replace(new_run(default_spec("scaling")), environment=environment)
    for point in points:
        run = run.with_point(point)
    save(run.ended("finished"))
    return run.run_id


@pytest.fixture
def two() -> tuple[str, str]:
    first = kept(timed([1e-3] * 9), timed([1e-3] * 9, variant="window 4"))
    return first, kept(timed([2e-3] * 9))


def test_a_comparison_gives_a_verdict_for_each_cell(two) -> None:
    result = call("compare", *two)
    assert result.exit_code == 0, result.output
    assert "flash fp32 causal 512" in result.output
    low, high = map(float, re.search(r" 0\.5 \((.+?)-(.+?)\)", result.output).groups())
    assert (0.5 / low, high / 0.5) == (
        pytest.approx(PROCESS_RATIO, rel=0.02),
        pytest.approx(PROCESS_RATIO, rel=0.02),
    )
    assert "one process each: measure with --repeats 3" in result.output
    assert "faster" in result.output
    assert "1 point of the first run is not in the other." in result.output


def test_a_comparison_cuts_no_word_at_80_columns(two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output = call("compare", *two).output
    assert {"flash", "causal", "0.5", "faster;"} <= set(output.split())
    assert re.search(r"\(0\.\d+-0\.\d+\)", output)
    assert "Peaks of memory: in 110 columns or more" in output


def test_a_comparison_as_json(two) -> None:
    found = json.loads(call("compare", *two, "--json").output)
    assert [point["verdict"] for point in found["points"]] == ["faster"]
    assert (found["only_first"], found["only_second"]) == (1, 0)
    assert found["points"][0]["first"]["timing"]["median_s"] == 1e-3


def test_the_conditions_of_both_runs_are_told_and_what_differs() -> None:
    cells = [timed([1e-3] * 9, kv_len=length) for length in (512, 1024)]
    warm = kept(*cells, torch="2.13", threads=1, allocator="warm heap: blocks are kept", cache="warm")
    faults = kept(*cells, torch="2.13", threads=2, allocator="default: page faults")
    lines = call("compare", warm, faults).output.splitlines()
    assert lines[0].endswith("torch 2.13, threads 1, allocator warm heap, cache warm")
    assert lines[1].endswith("torch 2.13, threads 2, allocator default, cache not known")
    assert lines[2] == "The runs differ in threads: 1 against 2"
    assert lines[3] == "The runs differ in allocator: warm heap: blocks are kept against default: page faults"
    found = json.loads(call("compare", warm, faults, "--json").output)
    assert [run["threads"] for run in found["runs"]] == [1, 2]
    assert found["differences"][0] == "threads: 1 against 2"
    assert "differ in" not in call("compare", warm, warm).output


def test_what_is_remarked_of_every_cell_is_told_once() -> None:
    runs_of_two = [kept(*(timed([1e-3] * 9, kv_len=length) for length in (512, 1024))) for _ in range(2)]
    output = call("compare", *runs_of_two).output
    assert output.count("one process each") == 1
    assert "In every cell, one process each: measure with --repeats 3" in output


def test_runs_without_a_common_cell_are_refused_in_one_sentence(two) -> None:
    result = call("compare", two[0], kept(timed([1e-3] * 9, dtype="bf16")))
    assert result.exit_code == 3
    assert "no cell in common" in result.output
    as_json = call("compare", two[0], kept(timed([1e-3] * 9, dtype="bf16")), "--json")
    assert as_json.exit_code == 3
    found = json.loads(as_json.stdout)
    assert (found["points"], found["only_first"], found["only_second"]) == ([], 2, 1)


def test_an_unknown_run_is_a_mistake_of_the_caller(two) -> None:
    for command in (("compare", two[0], "nothing"), ("export", "nothing", "--csv")):
        result = call(*command)
        assert result.exit_code == 2
        assert "There is no run or file named 'nothing'" in result.output


def test_a_recorded_run_can_be_exported() -> None:
    recorded = runs.reference_runs()[0]
    read = list(csv.DictReader(io.StringIO(call("export", recorded.run_id, "--csv").output)))
    assert len(read) == len(recorded.points)
    assert {row["recorded_on"] for row in read} == {recorded.recorded_on}


def test_export_to_a_file_and_to_standard_output_agree(two, home: Path) -> None:
    file = home / "run.csv"
    result = call("export", two[0], "--csv", "--output", str(file))
    assert result.output.strip() == f"2 points written to {file}"
    assert file.read_text(encoding="utf-8") == call("export", two[0], "--csv").output
    assert call("export", two[0], "--markdown").output.count("\n| scaling") == 2


def test_parquet_keeps_types_and_samples(two, home: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    file = home / "run.parquet"
    assert call("export", two[0], "--parquet", "--output", str(file)).exit_code == 0
    table = parquet.read_table(file).to_pylist()
    assert table[0]["samples_s"] == [1e-3] * 9
    assert table[1]["variant"] == "window 4"
    assert table[0]["causal"] is True


def test_parquet_without_pyarrow_is_refused_in_words(two, home: Path, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    result = call("export", two[0], "--parquet", "--output", str(home / "x"))
    assert result.exit_code == 3
    assert "needs the pyarrow package" in result.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "one of --csv, --parquet and --markdown must be given"),
        (("--csv", "--markdown"), "one of --csv, --parquet and --markdown must be given"),
        (("--parquet",), "--output must name a file when --parquet is given"),
        (("--csv", "--output", "/nowhere/x.csv"), "x.csv could not be written"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence(two, options, words: str) -> None:
    result = call("export", two[0], *options)
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output
