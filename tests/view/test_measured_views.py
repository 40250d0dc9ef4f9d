"""What a run puts on the pages of the newer experiments: its points where they belong, and a heading that says so."""

from typing import Any

import pytest

from lab import runs
from lab.cost import attention_pairs, score_bytes
from lab.runs import Point, Timing
from lab.view import training_passes
from tests.view.pages import chart, faults, line, open_page, words
from tests.view.points_of import point
from tests.view.points_of import run as run_of

TRAINING, TRICKS, KERNELS = "training_and_rules", "what_each_trick_changes", "which_kernel_ran"
DECODE = {"q_len": 1, "causal": False}


def timed(seconds: float, **changes: Any) -> Point:
    samples = tuple(seconds * factor for factor in (0.9, 1.0, 1.1))
    timing = Timing(seconds, samples[0], samples[2], 3, samples)
    return point(**{"timing": timing, "kv_len": 1024, "q_len": 1024, **changes})


def kept(experiment: str, *points: Point) -> None:
    environment = {"device_kind": "cpu", "device_name": "a CPU", "threads": 1}
    runs.save(run_of(*points, experiment=experiment, environment=environment, status="finished"))


def passes(name: str, forward: float, both: float, peak: int) -> list[Point]:
    shape = {"experiment": "training", "implementation": name}
    return [
        timed(forward, variant="forward", **shape),
        timed(both, variant="forward and backward", peak_extra_bytes=peak, **shape),
    ]


def test_training_draws_both_passes_over_forward_beside_the_counted_factors() -> None:
    scores = int(score_bytes(1, 12, 1024, 1024, 2))
    kept("training", *passes("naive", 1e-3, 2.5e-3, 3 * scores), *passes("sdpa", 1e-4, 4e-4, scores // 4))
    at = open_page(TRAINING, **{f"{TRAINING}_shown": "factors"})
    assert {(row["series"], row["x"]): row["y"] for row in chart(at)[1]["points"]} == pytest.approx(
        {("naive", 1024): 2.5, ("fused", 1024): 4.0}
    )
    assert set(line(at, "naive").values()) == {3.0}
    assert set(line(at, "fused").values()) == {3.5}
    assert "4 times its forward pass at T = 1k, for 3.5 times the FLOPs" in at.subheader[0].value
    assert "3 score tensors at its peak" in words(at)
    at.session_state[f"{TRAINING}_shown"] = "peaks"
    at.run()
    assert faults(at) == []
    assert {row["y"] for row in chart(at)[1]["points"]} == {3 * scores, scores // 4}
    assert line(at, training_passes.SCORES)[1024] == scores
    assert "12 times as much" in at.subheader[0].value


def test_windows_stand_beside_the_share_of_pairs_that_they_keep() -> None:
    shape = {"experiment": "windowed", "kernel": "flash"}
    kept(
        "windowed",
        timed(1e-3, implementation="sdpa", **shape),
        timed(0.5e-3, implementation="windowed", variant="window 256", **shape),
        timed(1.5e-3, implementation="sdpa", variant="window 256 as a T x T mask", **shape),
    )
    at = open_page(TRICKS, **{f"{TRICKS}_shown": "windowed"})
    assert faults(at) == []
    marks = {row["row"]: row["x"] for row in chart(at)[1]["points"]}
    assert marks == pytest.approx({"256 of 1k, in blocks": 0.5, "256 of 1k, as a mask": 1.5})
    starts = {row["row"]: row["start"] for row in chart(at)[1]["segments"]}
    pairs = [int(attention_pairs(1024, 1024, True, window)) for window in (256, None)]
    assert starts["256 of 1k, in blocks"] == pytest.approx(pairs[0] / pairs[1])
    assert "256 of 1k, as a mask" not in starts


def test_grouped_heads_shrink_the_cache_in_decode_and_nothing_in_prefill() -> None:
    shape = {"experiment": "gqa", "implementation": "sdpa"}
    decode = shape | DECODE | {"variant": "decode", "kv_len": 4096}
    kept(
        "gqa",
        *(timed(seconds, kv_heads=kv, **decode) for kv, seconds in ((12, 4e-4), (1, 1e-4))),
        *(timed(1e-3, kv_heads=kv, variant="prefill", **shape) for kv in (12, 1)),
    )
    at = open_page(TRICKS, **{f"{TRICKS}_shown": "gqa"})
    marks = {row["row"]: row["x"] for row in chart(at)[1]["points"]}
    assert marks == pytest.approx({"decode, 1 of 12 KV heads": 0.25, "prefill, 1 of 12 KV heads": 1.0})
    ends = {row["row"]: row["text"] for row in chart(at)[1]["ends"]}
    assert ends["decode, 1 of 12 KV heads"] == "bytes ÷ 12, time ÷ 4"
    assert "unchanged" in ends["prefill, 1 of 12 KV heads"]


def test_a_stored_cache_shows_its_error_by_type_and_kind_of_keys() -> None:
    shape = {"experiment": "kv_int8", "implementation": "quantised"} | DECODE
    errors = {"q4_0, random": 0.1, "q4_0, outlier channels": 0.3}
    kept(
        "kv_int8",
        *(timed(1e-3, variant=name, measures={"rms_relative_error": error}, **shape) for name, error in errors.items()),
    )  # fmt: skip
    at = open_page(TRICKS, **{f"{TRICKS}_shown": "kv_int8"})
    assert {row["row"]: row["x"] for row in chart(at)[1]["points"]} == errors
    assert "off by 10 % with random keys, by 30 %" in at.subheader[0].value
    assert "4.5 bits" in at.subheader[0].value


def test_errors_by_type_and_masks_are_measured_on_the_kernels_page() -> None:
    kept("accuracy", point(experiment="accuracy", implementation="math", variant="random", dtype="fp32"))
    at = open_page(KERNELS, **{f"{KERNELS}_shown": "accuracy"})
    assert [row["series"] for row in chart(at)[1]["points"] if row["kind"] == "measured"] == ["math_here"]
    kept("mask", timed(1e-3, experiment="mask", implementation="math", variant="float mask"))
    at.session_state[f"{KERNELS}_shown"] = "mask"
    at.run()
    assert faults(at) == []
    assert any("float mask" in set(table.value.get("mask", ())) for table in at.main.get("table"))
