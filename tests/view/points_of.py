"""Points for tests: what a worker would report."""

from dataclasses import replace
from typing import Any

from lab.runs import JobSpec, Point, Run, Timing, new_run


def point(**changes: Any) -> Point:
    found: dict[str, Any] = {
        "experiment": "scaling", "implementation": "naive", "kernel": "bmm + softmax", "status": "ok", "batch": 1,
        "heads": 12, "kv_heads": 12, "q_len": 512, "kv_len": 512, "head_dim": 64, "dtype": "bf16", "causal": True,
        "timing": Timing(2e-3, 1.9e-3, 2.2e-3, 9), "peak_extra_bytes": 13 * 2**20,
        "predicted_peak_bytes": 13 * 2**20, "max_abs_error": 1e-3, "tolerance": 1e-2, "error_rows": "all",
    }  # fmt: skip
    return Point(**{**found, **changes})


def run(*points: Point, experiment: str = "scaling", **changes: Any) -> Run:
    return replace(new_run(JobSpec(experiment, dtype="bf16")), points=points, **changes)
