"""Published tables of other cards as recorded runs: a run a table, a point a row and column where there is one.

What becomes of a table stands in the data file beside it ("record"): the experiment its points belong to and what
each column measured, or why it has no points. Rows without a point are kept in `Run.tables` like all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lab.cost.published_score import counted_flops
from lab.runs.point import Point, Timing
from lab.runs.run import Run
from lab.runs.spec import DTYPES, JobSpec

PREFIX = "published-"
TFLOPS = "TFLOP/s"
SECONDS = {"us": 1e-6, "ms": 1e-3}
OUT_OF_MEMORY = "The table has no figure here: out of memory."
WITHOUT_POINTS = "Its rows are kept, but none is a point: "


def published_runs(tables: Sequence[Mapping[str, Any]]) -> tuple[Run, ...]:
    """Turn published tables into runs; those with points come first.

    Args:
        tables: the content of published_tables.json.

    Returns:
        One finished run a table, badged with the card that the table names.
    """
    found = [_run(table) for table in tables]
    return tuple(sorted(found, key=lambda run: not run.points))


def _run(table: Mapping[str, Any]) -> Run:
    record, config = table["record"], table["config"]
    points = tuple(_points(table)) if "kinds" in record else ()
    label = str(config.get("gpu", "a card that the table does not name"))
    names = ("device_kind", "device_name", "dtype", "torch", "card")
    known = ("cuda", label, config.get("dtype"), config.get("torch"), record["card"])
    said = [
        f"Figures read from: {table['readout']}.",
        table["caveats"],
        table["config"].get("flop_convention"),
    ]
    return Run(
        run_id=PREFIX + table["id"],
        spec=_spec(table, points),
        environment={name: value for name, value in zip(names, known, strict=True) if value is not None},
        points=points,
        tables={name: value for name, value in table.items() if name not in ("record", "id", "source")},
        status="finished",
        message=None if points else WITHOUT_POINTS + record["no_points"] + ".",
        warnings=tuple(sentence for sentence in said if sentence),
        created_utc=None,  # the tables state no date
        recorded_on=label,
        source=table["source"],
        title=f"{record['name']} (published)",
    )


def _spec(table: Mapping[str, Any], points: Sequence[Point]) -> JobSpec:
    """What would measure the table: its shapes where it has points, else the experiment's name alone."""
    config, experiment = table["config"], table["record"]["experiment"]
    dtype = config.get("dtype") if config.get("dtype") in DTYPES else "auto"
    if not points:
        return JobSpec(experiment, device="cuda", dtype=dtype)
    first = points[0]
    return JobSpec(
        experiment,
        device="cuda",
        dtype=dtype,
        lengths=tuple(sorted({point.kv_len for point in points})),
        batches=tuple(sorted({point.batch for point in points})),
        heads=first.heads,
        kv_heads=first.kv_heads,
        head_dim=first.head_dim,
        causal=first.causal,
    )


def _points(table: Mapping[str, Any]) -> Iterator[Point]:
    """The points of a table, column by column."""
    for column, (implementation, variant) in table["record"]["kinds"].items():
        for values in table["rows"]:
            row = dict(zip(table["columns"], values, strict=True))
            shape = _shape(table["config"], row)
            timing, measures = _timing(table, shape, row[column])
            yield Point(
                experiment=table["record"]["experiment"],
                implementation=implementation,
                variant=variant,
                status="ok" if timing else "out_of_memory",
                reason=None if timing else OUT_OF_MEMORY,
                timing=timing,
                measures=measures,
                **shape,
            )


def _shape(config: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """The shape of a row: what the row does not state, the table's configuration does."""
    heads = row.get("heads", config.get("heads", config.get("q_heads")))
    length = row.get("T", row.get("Tk"))
    return {
        "batch": row.get("B", config.get("B")),
        "heads": heads,
        "kv_heads": config.get("kv_heads", heads),
        "q_len": config.get("Tq", length),
        "kv_len": length,
        "head_dim": config["head_dim"],
        "dtype": config["dtype"],
        "causal": config.get("causal", False),  # a lone query sees every key either way
    }


def _timing(
    table: Mapping[str, Any], shape: Mapping[str, Any], printed: float | None
) -> tuple[Timing | None, dict[str, float]]:
    """The time that a figure stands for; a rate is taken back to one by the FLOPs that the table counts."""
    if printed is None:
        return None, {}
    if table["units"] != TFLOPS:
        return Timing(printed * SECONDS[table["units"]]), {}
    flops = counted_flops(table["config"], shape["batch"], shape["heads"], shape["kv_len"])
    rate = printed * 1e12
    return Timing(flops / rate), {"counted_flops": float(flops), "printed_flops_per_s": rate}
