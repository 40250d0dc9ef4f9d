"""The command line that measures what a button measures."""

from __future__ import annotations

from lab.runs import JobSpec, default_spec


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
    for name in ("device", "dtype", "head_dim", "rounds", "threads", "seed"):
        if getattr(spec, name) != getattr(usual, name):
            words.append(f"--{name.replace('_', '-')} {getattr(spec, name)}")
    for name in ("lengths", "batches", "implementations"):
        if getattr(spec, name) != getattr(usual, name):
            words.append(f"--{name} {','.join(map(str, getattr(spec, name)))}")
    words += [] if spec.causal else ["--full"]
    words += [] if spec.warm_heap else ["--page-faults"]
    return " ".join(words)
