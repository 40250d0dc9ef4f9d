"""Which backend of PyTorch ran and which refused, with its reason: recorded, and on this machine."""

from __future__ import annotations

import pandas as pd

from lab.runs import Point, Run
from lab.view.format import seconds_text, tokens_label

BACKENDS = ("naive", "math", "efficient", "flash", "cudnn", "sdpa", "flex")
NAMES = {"sdpa": "sdpa (PyTorch chooses)", "efficient": "memory-efficient", "cudnn": "cuDNN"}
RUNS = "runs"
MASKS = ("is_causal", "boolean mask", "float mask")


def stated(run: Run | None) -> dict[str, dict[str, str]]:
    """What a recorded run says of each backend, by number type; nothing where it says nothing."""
    found = run.tables.get("backends", {}) if run else {}
    return {name: dict(types) for name, types in found.items()}


def recorded_table(run: Run | None) -> pd.DataFrame:
    """The backends of a recorded run, one row each, one column a number type."""
    rows = [{"backend": NAMES.get(name, name)} | types for name, types in stated(run).items()]
    return pd.DataFrame(rows).fillna("")


def plain_points(run: Run | None) -> list[Point]:
    """The points of a run that differ from a plain causal call in nothing, or in their number type only.

    Args:
        run: of the experiment "backends"; None for none.
    """
    points = [point for point in (run.points if run else ()) if point.experiment == "backends"]
    return [point for point in points if point.variant in ("causal", point.dtype)]


def measured_table(run: Run | None) -> pd.DataFrame:
    """The backends of this machine: number types with the kernel that was seen, or the reason it refused."""
    points = plain_points(run)
    rows = []
    for name in BACKENDS:
        types: dict[str, list[str]] = {}
        for point in points:
            if point.implementation == name:
                types.setdefault(_said(point), []).append(point.dtype)
        for said, dtypes in types.items():
            rows.append({"backend": NAMES.get(name, name), "types": ", ".join(dtypes), "what ran": said})
    return pd.DataFrame(rows)


def variants_table(run: Run | None) -> pd.DataFrame:
    """What PyTorch chose for each kind of call when it was left to choose."""
    points = [point for point in (run.points if run else ()) if point.experiment == "backends"]
    rows = [
        {"call": point.variant or "", "type": point.dtype, "what ran": _said(point)}
        for point in points
        if point.implementation == "sdpa"
    ]
    return pd.DataFrame(rows)


def masks_table(run: Run | None) -> pd.DataFrame:
    """What each backend did with the causal mask stated, as booleans and as numbers: kernel and time."""
    points = [point for point in (run.points if run else ()) if point.experiment == "mask"]
    rows = [
        {
            "backend": NAMES.get(point.implementation, point.implementation),
            "T": tokens_label(point.kv_len),
            "mask": point.variant or "",
            "time": seconds_text(point.timing.median_s) if point.timing else "",
            "what ran": _said(point),
        }
        for point in points
        if point.variant in MASKS
    ]
    return pd.DataFrame(rows)


def _said(point: Point) -> str:
    if point.status in ("ok", "noisy"):
        return f"{RUNS}: {point.kernel}" if point.kernel else RUNS
    return (
        f"{point.status.replace('_', ' ')}: {point.reason}"
        if point.reason
        else point.status.replace("_", " ")
    )
