"""Files of a validation: what is none is refused in one sentence, and Ctrl-C ends the child without its stack."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.cli.app import app

CELL = {
    "event": "cell", "kind": "prefill", "implementation": "naive", "dtype": "fp32", "batch": 1, "kv_len": 512,
    "causal": True, "fault": None, "noise": None, "predicted_s": 1.1, "measured_s": 1.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        ("{", "line 1: Expecting"),
        ("[1]", "line 1: [1] is neither the event of a calibration nor that of a cell"),
        ('{"event": "cell"}', "line 1: it lacks the field 'kind'"),
        (json.dumps(CELL) + "\n" + json.dumps(CELL | {"measured_s": 0}), "line 2: measured_s is 0; it must be finite"),
        (json.dumps(CELL | {"fault": None, "noise": 3}), "line 1: noise is 3; it must be a text"),
        ('{"event": "calibration"}', "line 1: it lacks the field 'calibration'"),
        ('{"event": "calibration", "calibration": {}}', "line 1: a calibration must state bandwidth"),
        ('{"event": "calibration", "calibration": 5}', "line 1: "),
    ],
)  # fmt: skip
def test_what_is_no_validation_is_refused_in_one_sentence(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text(text)
    result = CliRunner().invoke(app, ["validate", "--no-cells", "--load", str(file)])
    assert result.exit_code == 2, result.exception
    assert f"events.jsonl cannot be read as the file of a validation: {words}" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


SLOW_CHILD = """
import json, time
print(json.dumps({"event": "progress", "what": "ready"}), flush=True)
time.sleep(60)
"""
INTERRUPTED = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell without a terminal may leave it ignored
from lab.cli import validate
from lab.cli.app import app
validate.CHILD = (sys.executable, "-c", {SLOW_CHILD!r})
app(["validate", "--no-cells"], prog_name="lab")
"""


def test_an_interrupted_validation_prints_no_stack() -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    parent = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert parent.stderr is not None
    said = ""
    while not said.endswith("ready"):
        said += parent.stderr.read(1)
        assert parent.poll() is None, said
    os.killpg(parent.pid, signal.SIGINT)  # as a terminal does: to all in the foreground
    _, rest = parent.communicate(timeout=30)
    assert parent.returncode == 130
    assert "Traceback" not in rest
