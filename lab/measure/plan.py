"""Which child processes an experiment takes, in order. No torch."""

from __future__ import annotations

from lab.runs.spec import JobSpec

BOTH_PARTS = ("time", "memory")
PARTS = {"memory": ("memory",), "backends": ("memory",), "flops": ("memory",), "calibrate": ("time",)}
"""The parts of an experiment; what is not named has both."""


def parts_of(experiment: str) -> tuple[str, ...]:
    """Give the parts of an experiment in the order they run, each in a child process.

    Time comes first, so that nothing disturbs a timing and a reader sees points soon.

    Args:
        experiment: one of lab.runs.EXPERIMENTS.
    """
    return PARTS.get(experiment, BOTH_PARTS)


def processes_of(spec: JobSpec) -> tuple[str, ...]:
    """Give the parts of a job in the order they run, one for each child process.

    Times are taken as often as the job repeats; memory is counted, which gives the same every time.

    Args:
        spec: the job.
    """
    often = {"time": spec.repeats} if repeatable(spec.experiment) else {}
    parts = parts_of(spec.experiment)
    return tuple(part for part in parts for _ in range(often.get(part, 1)))


def repeatable(experiment: str) -> bool:
    """Say whether an experiment times cells, which several processes can time anew.

    Args:
        experiment: one of lab.runs.EXPERIMENTS.
    """
    return "time" in parts_of(experiment) and experiment != "calibrate"
