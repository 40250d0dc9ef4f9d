"""Counts of real modules on the page that counts by formula."""

from lab import runs
from lab.cost import catalog
from lab.cost.budget import budget
from lab.cost.shapes import prefill
from lab.runs import Point
from tests.view.pages import chart, line, open_page, words
from tests.view.points_of import point
from tests.view.points_of import run as run_of

GPT2 = catalog.model("gpt2")


def keep(experiment: str, *points: Point) -> None:
    environment = {"device_kind": "cpu", "device_name": "a CPU", "threads": 1}
    runs.save(run_of(*points, experiment=experiment, environment=environment, status="finished"))


def test_counts_of_real_modules_stand_on_the_lines_over_all_pairs() -> None:
    expected = budget(GPT2, prefill(1, 1024, "bf16", causal=False))
    counts = {"attention core": expected.core_flops, "feed-forward": expected.feed_forward_flops}
    keep(
        "flops",
        *(
            point(
                experiment="flops", implementation="eager", variant=f"prefill: {part}", kv_len=1024, q_len=1024,
                timing=None, peak_extra_bytes=None, causal=False, measures={"counted_flops": float(flops)},
            )
            for part, flops in counts.items()
        ),
    )  # fmt: skip
    at = open_page("count_the_work", count_the_work_mask="full")
    drawn = {row["series"]: row for row in chart(at)[1]["points"]}
    assert {row["kind"] for row in drawn.values()} == {"measured"}
    assert drawn["core"]["y"] == line(at, "core")[1024]
    assert drawn["ffn"]["y"] == line(at, "ffn")[1024]
    assert "2 of 2 counts equal the formulas" in words(at)
    assert chart(open_page("count_the_work", model="gpt2-medium"))[1]["points"] == []
