"""The lab's peak of one call against memray's, which watches the C library's allocator instead of PyTorch's events."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.measure.implementations import IMPLEMENTATIONS

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("memray_peaks.py")
WITHIN = 0.02
NOT_ON_CPU = {"efficient", "cudnn"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("length", "heads", "dtype", "left_out"),
    [
        (1024, 12, "fp32", set()),
        (1024, 12, "bf16", {"flex"}),  # seconds to load, and no other kernel
        (4096, 3, "fp32", set()),  # three heads: 0.4 GB for naive attention instead of 1.6
    ],
)
def test_every_peak_agrees_with_memray(length: int, heads: int, dtype: str, left_out: set[str]) -> None:
    pytest.importorskip("memray", reason="memray exists for Linux and macOS only")
    command = [sys.executable, str(SCRIPT), str(length), "--heads", str(heads), "--dtype", dtype, "--json"]
    command += ["--implementations", ",".join(name for name in IMPLEMENTATIONS if name not in left_out)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    cells = {cell["implementation"]: cell for cell in json.loads(done.stdout)}
    assert {name for name, cell in cells.items() if cell["refusal"]} == NOT_ON_CPU
    for name in cells.keys() - NOT_ON_CPU:
        assert cells[name]["memray"] > length * heads * 64 * (
            2 if dtype == "bf16" else 4
        )  # its output at least
        assert cells[name]["lab"] == pytest.approx(cells[name]["memray"], rel=WITHIN), name
