"""Bundled reference runs: published measurements as run records, built from the data files that hold them.

Nothing here is a figure: the numbers are those of lab/data, and what has no place in a point (refusal
reasons, fitted exponents, ratios, whole-model times) goes along in `Run.tables`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from lab.runs.point import Point, Timing
from lab.runs.published import published_runs
from lab.runs.run import Run
from lab.runs.spec import JobSpec

DATA = Path(__file__).resolve().parents[1] / "data"
CHAPTER_RUN_ID = "chapter-card"
CHAPTER_SOURCE = "The attention-cost chapter of the inference book, measured tables (draft; figures only)"
KERNELS = {"naive": "separate kernels", "math": "math backend", "efficient": "memory-efficient backend"}
"""As the chapter names what ran; it took no kernel names from a profiler."""
MIB = 2**20


@cache
def reference_runs() -> tuple[Run, ...]:
    """Return the bundled reference runs: the chapter's card, then the published tables of other cards."""
    return (chapter_run(chapter_facts()), *published_runs(_data("published_tables")))


@cache
def chapter_facts() -> dict[str, Any]:
    """Return what the chapter printed of its card: lab/data/chapter_measurements.json."""
    facts: dict[str, Any] = _data("chapter_measurements")
    return facts


def _data(name: str) -> Any:
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


def chapter_run(facts: Mapping[str, Any]) -> Run:
    """Turn the chapter's published tables into a run.

    Args:
        facts: the content of chapter_measurements.json.

    Returns:
        A finished run with memory, scaling and decode points, badged with the card it was recorded on.
    """
    device, shape = facts["device"], facts["shape"]
    label = (
        f"the chapter's card ({device['memory_gib']} GiB, compute capability {device['compute_capability']}, "
        f"{device['sm_count']} multiprocessors)"
    )
    points: dict[tuple[Any, ...], Point] = {}
    for point in (*_peaks(facts), *_times(facts), *_decode(facts)):
        points[point.key] = points[point.key].merge(point) if point.key in points else point
    lengths = tuple(sorted({point.kv_len for point in points.values() if point.q_len > 1}))
    return Run(
        run_id=CHAPTER_RUN_ID,
        spec=JobSpec("scaling", device="cuda", dtype="fp16", lengths=lengths, **shape_fields(shape)),
        environment={"device_kind": "cuda", "device_name": label, "os": "Windows (WDDM)"},
        ceilings={
            "flops_per_s": device["best_fp16_matmul_flops_per_s"],
            "copy_bytes_per_s": device["copy_bandwidth_bytes_per_s"],
            "how": device["note"],
        },
        points=tuple(points.values()),
        tables={name: value for name, value in facts.items() if name not in ("device", "shape")},
        status="finished",
        warnings=(facts["what"],),
        created_utc=None,  # the chapter states no date
        recorded_on=label,
        source=CHAPTER_SOURCE,
    )


def shape_fields(shape: Mapping[str, Any]) -> dict[str, Any]:
    """Return the heads of the chapter's shape: every query head has its own key/value head."""
    return {"heads": shape["heads"], "kv_heads": shape["heads"], "head_dim": shape["head_dim"]}


def _cell(facts: Mapping[str, Any], experiment: str, implementation: str, length: int, dtype: str) -> Point:
    """A point without figures, but with the error that the chapter states for its dtype and length."""
    errors = [
        row[implementation]
        for row in facts["max_abs_error_vs_float64"]
        if (row["dtype"], row["T"]) == (dtype, length) and implementation in row
    ]
    return Point(
        experiment=experiment,
        implementation=implementation,
        kernel=KERNELS.get(implementation),
        status="ok",
        batch=facts["shape"]["batch"],
        **shape_fields(facts["shape"]),
        q_len=length,
        kv_len=length,
        dtype=dtype,
        causal=facts["shape"]["causal"],
        max_abs_error=errors[0] if errors else None,
    )


def _peaks(facts: Mapping[str, Any]) -> Iterator[Point]:
    """The peaks belong to both experiments: the chapter's times are of the same calls."""
    timed = {row["T"] for row in facts["time_ms"]}
    for row in facts["peak_extra_memory_mib_fp16"]:
        for implementation in ("naive", "math", "efficient"):
            both = row["T"] in timed and implementation != "math"
            for experiment in ("memory", "scaling") if both else ("memory",):
                cell = _cell(facts, experiment, implementation, row["T"], "fp16")
                yield _with(cell, peak_extra_bytes=row[implementation] * MIB)


def _times(facts: Mapping[str, Any]) -> Iterator[Point]:
    for row in facts["time_ms"]:
        for name, milliseconds in row.items():
            if name != "T":
                dtype, implementation = name.split("_")
                cell = _cell(facts, "scaling", implementation, row["T"], dtype)
                yield _with(cell, timing=Timing(milliseconds / 1e3))


def _decode(facts: Mapping[str, Any]) -> Iterator[Point]:
    for row in facts["decode_fp16_one_layer_12_heads_of_64"]:
        cell = _cell(facts, "decode", "sdpa", row["T"], "fp16")
        yield _with(cell, batch=row["batch"], q_len=1, timing=Timing(row["us"] / 1e6))


def _with(point: Point, **changes: Any) -> Point:
    return Point.from_dict(point.to_dict() | changes)
