"""The command line that measures what a button measures."""

from __future__ import annotations

from lab.runs import JobSpec, default_spec

LISTS = ("lengths", "batches", "implementations")


def command_line(spec: JobSpec) -> str:
    """Write the command for a job.

    Args:
        spec: the job.

    Returns:
        One shell line, to be run in the lab's folder; what is the experiment's default is left out.
    """
    usual = default_spec(spec.experiment)
    words = [".venv/bin/python -m lab", spec.experiment]
    if (spec.heads, spec.kv_heads) != (usual.heads, usual.kv_heads):
        words.append(f"--heads {spec.heads} --kv-heads {spec.kv_heads}")
    for name in (
        "device",
        "dtype",
        "head_dim",
        "rounds",
        "repeats",
        "cache",
        "threads",
        "seed",
        "model",
        *LISTS,
    ):
        value = getattr(spec, name)
        if value != getattr(usual, name):
            text = ",".join(map(str, value)) if name in LISTS else value
            words.append(f"--{name.replace('_', '-')} {text}")
    words += [] if spec.causal else ["--full"]
    words += ["--quick"] if spec.quick else []
    words += [] if spec.warm_heap else ["--page-faults"]
    return " ".join(words)
