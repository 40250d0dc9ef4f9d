"""The command line: real measurements, tables for people, JSON lines for programs, one sentence for mistakes."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lab import runs
from lab.cli.app import app
from lab.cli.exits import exit_code
from lab.cost.catalog import models
from lab.measure.execution import Execution
from lab.runs import JobSpec
from tests.runs.test_records import cell

ROOT = Path(__file__).parents[2]
QUICK = ["--lengths", "64,128", "--dtype", "fp32", "--rounds", "3", "--heads", "2", "--head-dim", "16"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def process(*arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "lab", *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )


def test_memory_measures_and_prints_a_table_and_keeps_the_run() -> None:
    result = call("memory", *QUICK)
    assert result.exit_code == 0, result.output
    (run,) = runs.list_runs()
    assert run.status == "finished"
    assert len(run.points) == 6
    assert all(point.accepted for point in run.points)
    assert run.run_id in result.output
    shown = call("show", run.run_id)
    assert shown.exit_code == 0
    assert "_scaled_dot_product" in shown.output
    assert run.run_id in call("runs").output
    assert runs.from_text(call("show", run.run_id, "--json").output) == run


def test_scaling_speaks_json_lines_in_a_process_of_its_own() -> None:
    worker = process("scaling", *QUICK, "--full", "--implementations", "naive,flash", "--json-lines")
    out, err = worker.communicate(timeout=120)
    assert worker.returncode == 0, err
    events = [json.loads(line) for line in out.splitlines()]
    assert {"environment", "plan", "progress", "point", "ceilings", "end"} <= {
        event["event"] for event in events
    }
    accepted = [
        event["point"] for event in events if event["event"] == "point" and event["point"]["accepted"]
    ]
    assert {(point["implementation"], point["kv_len"]) for point in accepted} == {
        (name, length) for name in ("naive", "flash") for length in (64, 128)
    }
    assert all(point["causal"] is False for point in accepted)
    assert runs.load(events[-1]["run_id"]).status == "finished"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_keeps_the_finished_points(number: int) -> None:
    worker = process("scaling", "--lengths", "64,2048,4096", "--dtype", "fp32", "--json-lines")
    assert worker.stdout is not None
    for line in worker.stdout:
        if json.loads(line)["event"] == "point":
            break
    worker.send_signal(number)
    rest, _ = worker.communicate(timeout=20)
    assert worker.returncode == 130
    run = runs.load(json.loads(rest.splitlines()[-1])["run_id"])
    assert run.status == "cancelled"
    assert run.points


def test_a_reader_that_leaves_ends_the_measurement_without_a_traceback() -> None:
    worker = process("memory", *QUICK, "--json-lines")
    assert worker.stdout is not None
    worker.stdout.readline()
    worker.stdout.close()
    assert worker.wait(timeout=60) != 0
    assert worker.stderr is not None
    assert "Traceback" not in worker.stderr.read()
    worker.stderr.close()
    assert all(run.status == "cancelled" for run in runs.list_runs())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["memory", "--lengths", "0"], "it must be between 1"),
        (["memory", "--lengths", "many"], "whole numbers separated by commas"),
        (["memory", "--lengths", "512,512"], "each value may stand there once"),
        (["scaling", "--dtype", "fp8"], "dtype is 'fp8'; it must be one of"),
        (["scaling", "--heads", "12", "--kv-heads", "5"], "it must divide heads"),
        (["scaling", "--device", "tpu"], "it must be auto, cpu"),
        (["scaling", "--implementations", "magic"], "it must be one of naive"),
        (["scaling", "--rounds", "0"], "rounds is 0"),
        (["show", "nothing"], "There is no run or file named 'nothing'"),
        (["show", "README.md"], "damaged"),
        (["show", ""], "run is ''; it must be a run's identifier"),
        (["show", "a" * 5000], "cannot be read: File name too long"),
        (["show", "/" + "a" * 300], "cannot be read: File name too long"),
        (["flops", "--model", "nope"], "model must be one of gpt2"),
        (["memory", "--model", "nope"], "model must be one of gpt2"),
        (["memory", "--implementations", ""], "implementations[0] is ''"),
        (["cross-check", "--implementations", ""], "implementations[0] is ''"),
        (
            ["null", "--trials", "600", "--lengths", "8", "--implementations", "flash"],
            "trials is 600; it must be at most 100",
        ),
    ],
)
def test_a_mistake_gets_one_sentence_and_exit_code_2(arguments: list[str], words: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.output


def test_a_device_that_is_not_there_is_refused_with_exit_code_3() -> None:
    result = call("memory", *QUICK, "--device", "cuda:99")
    assert result.exit_code == 3
    assert "cuda" in result.output


@pytest.mark.parametrize(
    ("status", "code"),
    [("refused", 3), ("out_of_memory", 4), ("crashed", 5), ("cancelled", 130), ("finished", 0)],
)
def test_every_ending_has_its_exit_code(status: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Execution, "_one_part", lambda self, part: (status, "why"))
    result = call("memory", *QUICK)
    assert result.exit_code == code


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (("ok", "refused"), 0),
        (("noisy", "out_of_memory"), 0),
        (("refused", "refused"), 3),
        (("refused", "out_of_memory"), 4),
        (("ok", "wrong"), 6),
        ((), 0),
    ],
)
def test_a_finished_run_is_judged_by_its_points(statuses: tuple[str, ...], code: int) -> None:
    run = runs.new_run(JobSpec("memory"))
    for length, status in enumerate(statuses, 512):
        run = run.with_point(cell(kv_len=length, status=status))
    assert exit_code(run.ended("finished")) == code


def test_a_damaged_file_is_told_of_and_hides_nothing(home: Path) -> None:
    runs.save(runs.new_run(JobSpec("memory")).ended("finished"))
    (home / "runs" / "2000-damaged.json").write_text("{")
    result = call("runs")
    assert result.exit_code == 0
    assert "memory" in result.stdout
    assert "2000-damaged.json is damaged" in result.stderr


def test_every_experiment_has_a_command_that_states_its_defaults_and_the_exit_codes() -> None:
    for name in runs.EXPERIMENTS:
        result = call(name, "--help")
        assert result.exit_code == 0
        words = " ".join(result.output.split())
        assert ",".join(map(str, runs.default_spec(name).lengths)) in words
        assert "130 cancelled" in words


def test_env_describes_the_device_without_naming_host_or_user(home: Path) -> None:
    result = call("env", "--json")
    found = json.loads(result.output)
    assert found["device_kind"] in ("cpu", "cuda", "mps", "xpu")
    assert found["torch"]
    assert os.uname().nodename not in result.output
    for_people = call("env").output
    assert "torch" in for_people
    assert str(home) in for_people
    assert str(home) not in result.output


def test_a_list_of_runs_cuts_no_word_at_80_columns_and_names_its_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs.new_run(JobSpec("memory")).ended("cancelled")
    runs.save(run)
    listed = json.loads(call("runs", "--json").output)
    assert listed[0]["run"] == run.run_id
    monkeypatch.setenv("COLUMNS", "80")
    narrow = call("runs").output
    assert str(home) in narrow
    shown = set(narrow.split())
    for line in listed:
        words = f"{line['run']} {line['what']} {line['device']} {line['status']}".split()
        assert set(words) <= shown, line
    assert max(map(len, narrow.partition("\nKept in")[0].splitlines())) <= 80


def test_a_runs_table_cuts_no_figure_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    run = runs.new_run(JobSpec("backends"))
    for place, words in enumerate(("one query of a decode step", "half as many queries", "causal")):
        for name in ("efficient", "sdpa"):
            case = {"variant": words, "implementation": name, "dtype": ("bf16", "fp32")[place % 2]}
            run = run.with_point(
                cell(**case, causal=place == 0, measures={"predicted_causal_over_full": 0.5 + place})
            )
    runs.save(run.ended("finished"))
    monkeypatch.setenv("COLUMNS", "80")
    shown = call("show", run.run_id).output
    assert "…" not in shown
    assert {"efficient", "predicted_causal_over_full", "2.5", "queries"} <= set(shown.split())


def test_every_model_of_the_catalogue_is_listed_by_the_help_of_cost() -> None:
    assert set(models()) <= set(call("cost", "--help").output.replace(",", " ").split())


def test_the_reference_run_can_be_shown() -> None:
    result = call("show", "chapter-card")
    assert result.exit_code == 0
    assert "recorded" in result.output


def test_help_lists_the_exit_codes_and_starts_without_torch() -> None:
    program = "import sys; sys.argv = ['lab', '--help']\ntry:\n    import runpy; runpy.run_module('lab', run_name='__main__')\nexcept SystemExit:\n    print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip().endswith("False")
    assert "130 cancelled" in " ".join(done.stdout.split())


def test_a_terminal_of_few_characters_gets_question_marks_and_json_stays_whole() -> None:
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for arguments in (("show", "chapter-card"), ("show", "chapter-card", "--json")):
        done = subprocess.run(
            [sys.executable, "-m", "lab", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env=ascii_only,
        )
        assert (done.returncode, done.stderr) == (0, "")
    assert runs.from_text(done.stdout) == runs.reference_runs()[0]


def test_a_long_run_is_cut_and_says_by_how_much_until_all_is_asked_for() -> None:
    points = tuple(cell(kv_len=length, reason="busy", status="noisy") for length in range(600, 810))
    run = replace(runs.new_run(JobSpec("scaling")), points=points).ended("finished")
    runs.save(run)
    cut, whole = call("show", run.run_id).output, call("show", run.run_id, "--all").output
    assert "10 of 210 points are left out; show --all prints them." in cut
    assert "and 160 more: busy" in " ".join(cut.split())
    assert "left out" not in whole
    rows = [[line.split()[:2] for line in said.splitlines()] for said in (cut, whole)]
    assert [
        sum(row == [str(length), "flash"] for row in said for length in range(600, 810)) for said in rows
    ] == [200, 210]
