"""A comparison is made from quiet times alone, and not where their spreads overlap."""

from dataclasses import replace

from lab.runs import JobSpec
from lab.view import run_shape, verdict
from lab.view.frames import Mark
from tests.view.points_of import point, run


def mark(series: str, milliseconds: float, spread: float = 0.01, x: float = 1024) -> Mark:
    y = milliseconds * 1e-3
    return Mark(series, "measured", x, y, y * (1 - spread), y * (1 + spread))


def said(*marks: Mark, context: int = 1024) -> str | None:
    return verdict.against(marks, "naive", "sdpa", "here", context)


def test_a_headline_says_faster_slower_or_alike() -> None:
    assert "2 times faster" in str(said(mark("naive", 20), mark("sdpa", 10)))
    assert "does not win" in str(said(mark("naive", 10), mark("sdpa", 20)))
    assert "as fast as each other" in str(said(mark("naive", 10, 0.1), mark("sdpa", 11, 0.1)))
    assert "as fast as each other" in str(said(mark("naive", 9.51, 1e-4), mark("sdpa", 9.42, 1e-4)))


def test_noisy_times_make_no_headline() -> None:
    loud = replace(mark("naive", 20), noisy=True)
    assert said(loud, mark("sdpa", 10)) is None
    assert "T = 512, of those timed the nearest to 1k, naive" in str(
        said(loud, mark("sdpa", 10), mark("naive", 9, x=512), mark("sdpa", 3, x=512))
    )


def test_a_headline_is_of_the_scenarios_context_where_that_was_timed() -> None:
    pairs = [
        mark(name, time, x=x) for x in (512, 1024, 8192) for name, time in (("naive", x), ("sdpa", x / 4))
    ]
    assert str(said(*pairs, context=1024)).startswith("At T = 1k naive")
    assert "At T = 512, of those timed the nearest to 128," in str(said(*pairs, context=128))
    assert "At T = 8k, of those timed the nearest to 128k," in str(said(*pairs, context=131072))


def test_a_table_says_what_its_points_belong_to_and_what_differs() -> None:
    spec = JobSpec("scaling", dtype="bf16", heads=12, kv_heads=12, head_dim=64, batches=(1,))
    known = run(environment={"device_kind": "cpu", "device_name": "Some CPU", "threads": 2})
    text = run_shape.caption(known, [point()], spec)
    assert text == "Measured: 12 heads of 64, bf16, 2 threads, Some CPU."
    other = replace(spec, heads=32, kv_heads=8, head_dim=128, dtype="fp32", batches=(4,))
    differing = run_shape.caption(known, [point(status="noisy")], other)
    assert "that is 32 heads of 128 on 8 KV heads, fp32, batch 4." in differing
    assert run_shape.NOISY in differing
