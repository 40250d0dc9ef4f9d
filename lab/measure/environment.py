"""What a run was measured on: what it takes to compare two runs, and no name of a host or user."""

from __future__ import annotations

from typing import Any

import torch

from lab.measure import allocator
from lab.measure.cells import COLD_FACTOR
from lab.measure.experiments.registry import EXPERIMENTS
from lab.measure.gate import gate_for
from lab.measure.job import Job
from lab.runs.suites import SUITES


def environment(job: Job) -> dict[str, Any]:
    """Describe the machine and the settings of this process.

    Args:
        job: as opened on its device.

    Returns:
        JSON values.
    """
    kind = job.device.kind
    return job.device.identity() | {
        "dtype": job.dtype,
        "dtypes": list(job.device.dtypes()),
        "default_dtype": job.device.default_dtype(),
        "implementations": list(job.implementations),
        "seed": job.spec.seed,
        "allocator": allocator.describe(job.warm_heap) if kind == "cpu" else "PyTorch's caching allocator",
        "cache": _cache(job),
        "gate": gate_for(kind, job.threads).describe(),
        "fp32_matmul_precision": torch.get_float32_matmul_precision(),
    }


def _cache(job: Job) -> str:
    """Say whether a cache of the device is to hold the inputs from one call to the next."""
    experiment = job.spec.experiment
    if experiment in SUITES and job.spec.cache == "auto":
        return "as in each experiment alone"
    cold = job.cold_cache(EXPERIMENTS[experiment].cold_cache)
    return f"cold: inputs in turn over {COLD_FACTOR}x the last cache" if cold else "warm"
