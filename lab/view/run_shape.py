"""What the points of a run belong to: shape, number type, threads and device; and where that is not what is asked."""

from __future__ import annotations

from collections.abc import Sequence

from lab.runs import JobSpec, Point, Run
from lab.view.caveats import shapes_text
from lab.view.ceilings import short_name

NOISY = "Dashed rings on the chart are noisy points: the machine was busy, so no comparison rests on them."


def caption(run: Run, found: Sequence[Point], spec: JobSpec) -> str:
    """Say what was measured, above a table of points.

    Args:
        run: measured on this machine.
        found: its points that the table holds.
        spec: what the page's button would measure.
    """
    threads = run.environment.get("threads") if run.environment.get("device_kind") == "cpu" else None
    parts = [
        shapes_text(found),
        ", ".join(dict.fromkeys(point.dtype for point in found)),
        f"{threads} thread{'s' if threads != 1 else ''}" if threads else "",
        short_name(run),
    ]
    said = [f"Measured: {', '.join(part for part in parts if part)}."]
    wanted = _differing(found, spec)
    if wanted:
        said.append(f"**Not what is asked for now:** that is {', '.join(wanted)}.")
    if any(point.status == "noisy" and point.timing for point in found):
        said.append(NOISY)
    return " ".join(said)


def _differing(found: Sequence[Point], spec: JobSpec) -> list[str]:
    """What of the job no point has."""
    wanted = []
    if all(_heads(point) != (spec.heads, spec.kv_heads, spec.head_dim) for point in found):
        on = "" if spec.heads == spec.kv_heads else f" on {spec.kv_heads} KV heads"
        wanted.append(f"{spec.heads} heads of {spec.head_dim}{on}")
    if spec.dtype != "auto" and all(point.dtype != spec.dtype for point in found):
        wanted.append(spec.dtype)
    if all(point.batch not in spec.batches for point in found):
        wanted.append(f"batch {', '.join(map(str, spec.batches))}")
    return wanted


def _heads(point: Point) -> tuple[int, int, int]:
    return point.heads, point.kv_heads, point.head_dim
