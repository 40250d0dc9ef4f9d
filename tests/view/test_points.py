import io

import pandas as pd
import pytest

from lab.view import points
from lab.view.palette import role_of
from tests.view.points_of import point, run

SHAPE = {"batch": 1, "heads": 12, "kv_heads": 12, "head_dim": 64, "causal": True, "dtype": "fp16"}
REFUSED = {
    "status": "refused", "kernel": None, "timing": None, "peak_extra_bytes": None, "max_abs_error": None,
    "need_bytes": 4 * 2**30, "have_bytes": 2**30, "reason": "too large",
}  # fmt: skip


def series_of(found) -> str:
    return role_of(found.implementation)


def test_types_of_the_same_width_fit_where_bytes_count_and_not_where_time_counts() -> None:
    assert points.fits(point(dtype="bf16"), SHAPE, same_type=False)
    assert not points.fits(point(dtype="bf16"), SHAPE, same_type=True)
    assert not points.fits(point(dtype="fp32"), SHAPE, same_type=False)


@pytest.mark.parametrize("change", [{"batch": 2}, {"heads": 24}, {"head_dim": 128}, {"causal": False}])
def test_points_of_another_shape_are_left_out(change: dict) -> None:
    kept = points.marks(
        run(point(**change)), SHAPE, series_of, points.time_mark, recorded=False, same_type=False
    )
    assert kept == []


def test_a_point_is_measured_only_when_its_last_part_has_come() -> None:
    assert points.kind_of(point(), recorded=False) == "measured"
    assert points.kind_of(point(peak_extra_bytes=None), recorded=False) == "pending"
    assert points.kind_of(point(max_abs_error=None), recorded=False) == "pending"
    assert points.kind_of(point(), recorded=True) == "recorded"


@pytest.mark.parametrize("status", ["refused", "out_of_memory", "wrong", "crashed"])
def test_what_was_not_accepted_is_drawn_hollow(status: str) -> None:
    assert points.kind_of(point(status=status, reason="because"), recorded=False) == "refused"


def test_a_refused_point_stands_where_it_would_have_needed() -> None:
    mark = points.peak_mark(point(**REFUSED), "naive", recorded=False)
    assert mark is not None
    assert (mark.kind, mark.y) == ("refused", 4 * 2**30)
    assert points.time_mark(point(**REFUSED), "naive", recorded=False) is None


def test_spread_is_from_quartile_to_quartile() -> None:
    mark = points.time_mark(point(), "naive", recorded=False)
    assert mark is not None
    assert (mark.low, mark.y, mark.high) == (1.9e-3, 2e-3, 2.2e-3)


def test_the_table_names_kernel_error_spread_and_verdict() -> None:
    (row,) = points.table([point()], binary=True).to_dict("records")
    assert row == {
        "T": "512", "batch": "1", "implementation": "naive", "time": "2 ms", "quartiles": "1.9 ms … 2.2 ms",
        "peak": "13 MiB", "predicted peak": "13 MiB", "error against fp64": "1.0e-03 (allowed 1e-02)",
        "verdict": "accepted", "kernel seen": "bmm + softmax",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (REFUSED, "refused: needs 4 GiB, 1 GiB free"),
        ({"status": "out_of_memory", "reason": "killed"}, "out of memory: killed"),
        ({"status": "wrong", "reason": "error 3"}, "wrong: error 3"),
        ({"status": "noisy", "reason": "the machine was busy"}, "accepted, noisy: the machine was busy"),
        ({"peak_extra_bytes": None}, "no memory figure yet"),
        ({"kernel": None}, "not accepted: incomplete"),
    ],
)
def test_the_verdict_says_why_not(change: dict, words: str) -> None:
    assert points.verdict(point(**change), binary=True) == words


def test_rows_are_sorted_and_empty_columns_left_out() -> None:
    found = points.table(
        [
            point(kv_len=1024, q_len=1024, timing=None),
            point(implementation="math", timing=None),
            point(timing=None),
        ],
        binary=True,
    )
    assert list(found["T"]) == ["512", "512", "1k"]
    assert list(found["implementation"]) == ["math", "naive", "naive"]
    assert "time" not in found.columns


def test_points_of_one_implementation_differ_by_variant_and_by_what_varies() -> None:
    found = points.table(
        [
            point(variant="window 256", measures={"cache_bytes": 2048.0, "pairs_needed": 7.0}),
            point(variant="forward", kv_heads=4),
        ],
        binary=True,
    )
    assert list(found["variant"]) == ["forward", "window 256"]
    assert list(found["KV heads"]) == ["4", "12"]
    assert list(found["also"]) == ["", "cache 2 KiB; pairs needed 7"]
    assert not {"type", "mask", "remarks"} & set(found.columns)


def test_the_csv_can_be_read_back() -> None:
    back = pd.read_csv(io.BytesIO(points.csv_bytes(run(point(), point(**REFUSED)))))
    assert back["median_s"].iloc[0] == 2e-3
    assert list(back["accepted"]) == [True, False]
    assert back["peak_extra_bytes"].iloc[0] == 13 * 2**20
    assert back["need_bytes"].iloc[1] == REFUSED["need_bytes"]
    assert not {"variant", "warnings", "first_call_s"} & set(back.columns)
