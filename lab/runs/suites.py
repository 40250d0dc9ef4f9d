"""Suites: several experiments as one job and one run. Here stands which, and at which sizes. No torch.

"cpu" is what a machine without an accelerator can show of the chapter; "all" is every experiment. Quick ones take
smaller sizes and fewer rounds, to be done within two minutes on two cores.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lab.runs.spec import JobSpec, default_spec

Sizes = dict[str, dict[str, Any]]

CPU = ("backends", "memory", "scaling", "causal", "decode")
ALL = (
    "calibrate",
    *CPU,
    "first_call",
    "mask",
    "accuracy",
    "windowed",
    "gqa",
    "split_kv",
    "kv_int8",
    "training",
    "model",
    "flops",
)
SUITES = {"cpu": CPU, "all": ALL}

THOROUGH: Sizes = {"model": {"rounds": 5}}
"""What differs from the experiment's own defaults."""

QUICK: Sizes = {
    "backends": {"lengths": (64,)},
    "memory": {"lengths": (512, 1024)},
    "scaling": {"lengths": (256, 512, 1024, 2048)},
    "causal": {"lengths": (512, 1024)},
    "decode": {"lengths": (128, 1024, 4096), "batches": (1, 4)},
    "first_call": {"lengths": (512,)},
    "mask": {"lengths": (512,)},
    "accuracy": {"lengths": (256,)},
    "windowed": {"lengths": (512,)},
    "gqa": {"lengths": (2048,), "batches": (1,)},
    "split_kv": {"lengths": (4096,)},
    "kv_int8": {"lengths": (512,)},
    "training": {"lengths": (256,)},
    "model": {"lengths": (128,)},
    "flops": {"lengths": (256,)},
}
QUICK_ROUNDS = 5
TAKEN_OVER = ("device", "dtype", "threads", "seed", "warm_heap", "quick", "cache", "repeats")


def members(spec: JobSpec) -> tuple[JobSpec, ...]:
    """List the jobs a suite is made of, in order.

    Args:
        spec: of a suite.

    Returns:
        One job an experiment; they take device, dtype, threads, seed and heap from the suite, their sizes are
        their own.

    Raises:
        ValueError: the experiment is no suite.
    """
    if spec.experiment not in SUITES:
        raise ValueError(f"experiment must be one of {', '.join(SUITES)}, got {spec.experiment!r}")
    taken = {name: getattr(spec, name) for name in TAKEN_OVER}
    found = []
    for name in SUITES[spec.experiment]:
        sizes = {"rounds": QUICK_ROUNDS, **QUICK.get(name, {})} if spec.quick else THOROUGH.get(name, {})
        found.append(replace(default_spec(name, **sizes), **taken))
    return tuple(found)
