"""The chapter's measured tables are a reference run, every figure in its place and none typed into code."""

import json
from pathlib import Path

import pytest

from lab.runs import reference_runs
from lab.runs.reference import DATA, chapter_run

FACTS = json.loads((DATA / "chapter_measurements.json").read_text(encoding="utf-8"))
RUN = reference_runs()[0]


def find(experiment: str, implementation: str, length: int, dtype: str = "fp16", batch: int = 1):
    found = [
        point
        for point in RUN.points
        if (point.experiment, point.implementation, point.kv_len, point.dtype, point.batch)
        == (experiment, implementation, length, dtype, batch)
    ]
    assert len(found) == 1
    return found[0]


def test_it_is_badged_with_the_card_and_its_source() -> None:
    assert RUN.recorded_on is not None
    assert "12 GiB" in RUN.recorded_on
    assert RUN.source
    assert RUN.status == "finished"


@pytest.mark.parametrize("row", FACTS["peak_extra_memory_mib_fp16"], ids=lambda row: str(row["T"]))
def test_every_peak_is_a_point(row: dict) -> None:
    for implementation in ("naive", "math", "efficient"):
        assert find("memory", implementation, row["T"]).peak_extra_bytes == row[implementation] * 2**20


@pytest.mark.parametrize("row", FACTS["time_ms"], ids=lambda row: str(row["T"]))
def test_every_time_is_a_point(row: dict) -> None:
    for name, milliseconds in row.items():
        if name != "T":
            dtype, implementation = name.split("_")
            assert find("scaling", implementation, row["T"], dtype).timing.median_s == milliseconds / 1e3


@pytest.mark.parametrize("row", FACTS["decode_fp16_one_layer_12_heads_of_64"], ids=str)
def test_every_decode_step_is_a_point(row: dict) -> None:
    point = find("decode", "sdpa", row["T"], batch=row["batch"])
    assert point.timing.median_s == row["us"] / 1e6
    assert point.q_len == 1


def test_errors_join_the_points_of_their_type_and_length() -> None:
    for row in FACTS["max_abs_error_vs_float64"]:
        if row["T"] == 2048:
            for implementation in ("naive", "efficient"):
                assert (
                    find("scaling", implementation, 2048, row["dtype"]).max_abs_error == row[implementation]
                )


def test_what_is_no_point_goes_along_as_tables() -> None:
    for name in (
        "backends",
        "causal_over_full_time",
        "fitted_exponents_T_ge_1024",
        "gpt2_fp32_batch1",
        "first_call",
    ):
        assert RUN.tables[name] == FACTS[name]


def test_the_points_follow_the_data_file() -> None:
    changed = json.loads(json.dumps(FACTS))
    changed["time_ms"][0]["fp16_naive"] *= 2
    before, after = (
        [point for point in run.points if point.timing and point.kv_len == changed["time_ms"][0]["T"]]
        for run in (RUN, chapter_run(changed))
    )
    assert before != after


def test_the_bundled_facts_are_those_handed_over() -> None:
    copy = Path(__file__).parents[1] / "facts" / "chapter_measurements.json"
    handed_over = json.loads(copy.read_text(encoding="utf-8"))
    assert {**handed_over, "what": ""} == {**FACTS, "what": ""}
