"""Published tables are recorded runs: every figure a point with the time it stands for, or a reason why none is."""

import json

import pytest

from lab.cost.formulas import attention_flops, kv_bytes
from lab.cost.published_score import counted_flops
from lab.runs import from_text, reference_runs, to_text
from lab.runs.published import published_runs
from lab.runs.readings import reading
from lab.runs.reference import DATA

TABLES = json.loads((DATA / "published_tables.json").read_text(encoding="utf-8"))
RUNS = {run.run_id.removeprefix("published-"): run for run in reference_runs()[1:]}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table["id"])
def test_every_table_is_a_run_with_its_source_its_card_and_all_its_rows(table: dict) -> None:
    run = RUNS[table["id"]]
    assert run.source == table["source"]
    assert run.recorded_on == table["config"].get("gpu", "a card that the table does not name")
    for name in ("rows", "columns", "config"):
        assert run.tables[name] == table[name]
    assert run.title is not None
    assert run.title.endswith("(published)")
    assert from_text(to_text(run)) == run


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table["id"])
def test_every_figure_is_a_point_or_the_run_says_why_not(table: dict) -> None:
    run = RUNS[table["id"]]
    kinds = table["record"].get("kinds")
    if kinds is None:
        assert not run.points
        assert run.message is not None
        assert run.message.endswith(f"{table['record']['no_points']}.")
        return
    assert set(kinds) <= set(table["columns"])
    assert len(run.points) == len({point.key for point in run.points}) == len(kinds) * len(table["rows"])
    absent = sum(row[table["columns"].index(name)] is None for row in table["rows"] for name in kinds)
    assert sum(point.status == "out_of_memory" for point in run.points) == absent
    assert all((point.timing is None) == (point.status == "out_of_memory") for point in run.points)


@pytest.mark.parametrize("name", [table["id"] for table in TABLES if table["units"] == "TFLOP/s"])
def test_a_rate_over_its_counted_flops_gives_the_figure_back(name: str) -> None:
    table = next(table for table in TABLES if table["id"] == name)
    for point in RUNS[name].points:
        dense = attention_flops(point.batch, point.heads, point.q_len, point.kv_len, point.head_dim, False)
        share = (0.5 if point.causal else 1) * (3.5 if table["config"]["mode"] == "fwd+bwd" else 1)
        column = next(key for key, kind in table["record"]["kinds"].items() if kind[1] == point.variant)
        row = next(row for row in table["rows"] if row[0] == point.kv_len)
        printed = row[table["columns"].index(column)]
        if point.timing is not None:
            assert point.batch * point.kv_len == 16384
            assert dense * share / point.timing.median_s / 1e12 == pytest.approx(printed)


def test_decode_steps_read_the_bytes_that_the_table_computed() -> None:
    table = next(table for table in TABLES if table["id"] == "D20")
    stated = {row[1]: (row[5], row[6]) for row in table["rows"]}
    for point in RUNS["D20"].points:
        if point.variant == "Flash-Decoding":
            size, rate = stated[point.kv_len]
            assert kv_bytes(point.batch, 1, point.kv_heads, point.kv_len, point.head_dim, 2) == size
            assert size / point.timing.median_s / 1e9 == pytest.approx(rate, rel=1e-3)


def test_the_points_follow_the_data_file() -> None:
    changed = json.loads(json.dumps(TABLES))
    changed[0]["rows"][0][3] *= 2
    point = published_runs(changed)[0].points[0]
    assert point.timing.median_s == pytest.approx(RUNS["D01"].points[0].timing.median_s / 2)


def test_a_mode_that_the_convention_does_not_cover_is_refused() -> None:
    with pytest.raises(ValueError, match="mode must be one of fwd, fwd\\+bwd, got 'bwd'"):
        counted_flops({"mode": "bwd", "head_dim": 64, "causal": False}, 1, 1, 128)


def test_a_table_is_read_by_rates_and_by_its_speed_over_plain_pytorch() -> None:
    fast, ratios = reading(RUNS["D09"])["scaling"]
    assert fast.startswith("T = 16,384, fp16: FlashAttention-3 497 TFLOP/s, cuDNN 413 TFLOP/s, ")
    assert fast.endswith("PyTorch ran out of memory.")
    assert ratios.startswith("batch 2, T = 8,192, fp16: time of PyTorch over that of the others: ")
    assert f"FlashAttention-3 {496 / 73:.3g}, " in ratios
    decode = reading(RUNS["D20"])["decode"]
    assert "Flash-Decoding 1.26e+03 GB/s" in decode[0]
    assert all(reading(run) for run in RUNS.values() if run.points)
    assert not any(reading(run) for run in RUNS.values() if not run.points)
