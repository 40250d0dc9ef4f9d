"""The command line that measures what a button measures."""

from __future__ import annotations

from lab.runs import JobSpec


def command_line(spec: JobSpec) -> str:
    """Write the command for a job.

    Args:
        spec: the job.

    Returns:
        One shell line, to be run in the lab's folder.
    """
    words = [".venv/bin/python -m lab", spec.experiment, "--device", spec.device, "--dtype", spec.dtype]
    words += ["--lengths", ",".join(map(str, spec.lengths))]
    words += ["--batches", ",".join(map(str, spec.batches))]
    words += ["--heads", str(spec.heads), "--kv-heads", str(spec.kv_heads), "--head-dim", str(spec.head_dim)]
    words.append("--causal" if spec.causal else "--full")
    return " ".join(words)
