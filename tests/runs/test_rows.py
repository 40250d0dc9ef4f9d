"""A run as a table: every point a row, nothing lost, and the three formats agree."""

import csv
import io

from lab.runs import Timing, default_spec, new_run
from lab.runs.rows import rows, to_csv, to_markdown
from tests.runs.test_records import cell


def run_of(*points):
    run = new_run(default_spec("scaling"))
    for point in points:
        run = run.with_point(point)
    return run


POINTS = (
    cell(timing=Timing(2e-3, 1e-3, 3e-3, 3, (1e-3, 2e-3, 3e-3), 9e-3), measures={"cache_bytes": 12.0}),
    cell(variant="a|b", status="refused", reason="needs, much", timing=None, measures={"pairs": 3.0}),
)


def test_every_point_is_a_row_with_the_same_columns() -> None:
    run = run_of(*POINTS)
    found = rows(run)
    assert len(found) == 2
    assert list(found[0]) == list(found[1])
    assert found[0]["median_s"] == 2e-3
    assert found[0]["samples_s"] == [1e-3, 2e-3, 3e-3]
    assert (found[0]["measure_cache_bytes"], found[0]["measure_pairs"]) == (12.0, None)
    assert (found[1]["measure_cache_bytes"], found[1]["median_s"]) == (None, None)
    assert found[1]["accepted"] is False
    assert {row["run_id"] for row in found} == {run.run_id}


def test_csv_reads_back() -> None:
    read = list(csv.DictReader(io.StringIO(to_csv(run_of(*POINTS)))))
    assert len(read) == 2
    assert read[0]["samples_s"] == "0.001; 0.002; 0.003"
    assert read[1]["reason"] == "needs, much"
    assert read[1]["median_s"] == ""
    assert float(read[0]["median_s"]) == 2e-3


def test_markdown_leaves_out_what_is_empty_and_escapes_what_would_break_it() -> None:
    text = to_markdown(run_of(*POINTS))
    head, line, *body = text.splitlines()[2:]
    columns = [part.strip() for part in head.strip("|").split("|")]
    assert "need_bytes" not in columns
    assert "samples_s" not in columns
    assert "measure_pairs" in columns
    assert line.count("---") == len(columns)
    assert len(body) == 2
    assert "a\\|b" in body[1]
    assert all(row.replace("\\|", "").count("|") == len(columns) + 1 for row in body)


def test_an_empty_run_is_a_header() -> None:
    assert to_csv(run_of()) == "run_id\n"
    assert to_markdown(run_of()).count("\n") == 1
