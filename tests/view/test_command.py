import shlex

import pytest
from typer.testing import CliRunner

from lab.cli import measure
from lab.cli.app import app
from lab.runs import JobSpec, Run, default_spec, new_run
from lab.view.command import command_line

SPECS = [
    default_spec("selftest"),
    default_spec(
        "memory", dtype="bf16", lengths=(512, 8192), batches=(4,), heads=32, kv_heads=8, head_dim=128
    ),
    default_spec("decode", device="cpu", threads=3, batches=(1, 16), implementations=("naive", "sdpa")),
    default_spec("scaling", heads=24, kv_heads=12, quick=True),
    default_spec("flops", model="llama-3-8b"),
    default_spec("scaling", causal=False, rounds=3, seed=5, warm_heap=False, kv_heads=4),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.experiment)
def test_the_command_measures_what_the_button_measures(
    spec: JobSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[JobSpec] = []

    def measured(wanted: JobSpec) -> Run:
        asked.append(wanted)
        return new_run(wanted).ended("finished")

    monkeypatch.setattr(measure, "measure_for_people", measured)
    words = shlex.split(command_line(spec).removeprefix(".venv/bin/python -m lab "))
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert asked == [spec]
