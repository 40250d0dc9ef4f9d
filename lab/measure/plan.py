"""Which child processes an experiment takes, in order. No torch."""

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
