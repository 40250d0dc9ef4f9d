"""Two clocks side by side: agreement is judged by the median of clean pairs, and only by tools that can judge."""

import pytest

from lab.runs.clocks import BUSY, TORCH_TIMER, TRITON_TIMER, TwoClocks, agreements


def pair(ours_s: float, theirs_s: float, *, clean: bool = True, tool: str = TORCH_TIMER) -> TwoClocks:
    return TwoClocks("naive", 64, tool, ours_s, theirs_s, clean)


@pytest.mark.parametrize(
    ("pairs", "ratio", "verdict"),
    [
        ([pair(1.0, 1.0), pair(2.0, 2.0), pair(1.3, 1.0)], 1.0, "met"),  # pair by pair: a drift cancels
        ([pair(1.04, 1.0)] * 3, 1.04, "met"),
        ([pair(1.06, 1.0)] * 3, 1.06, "MISSED"),
        ([pair(0.94, 1.0)] * 3, 0.94, "MISSED"),
        ([pair(9.0, 1.0, clean=False), pair(1.0, 1.0)], 1.0, "met"),  # what a busy machine did is left out
        ([pair(9.0, 1.0, clean=False)], 9.0, BUSY),
        ([pair(0.5, 1.0, tool=TRITON_TIMER)], 0.5, "not judged"),
    ],
)
def test_the_median_of_clean_pairs_is_judged(pairs: list[TwoClocks], ratio: float, verdict: str) -> None:
    (found,) = agreements(pairs)
    assert found.ratio == pytest.approx(ratio)
    assert found.verdict == verdict
    assert (found.clean, found.pairs) == (sum(each.clean for each in pairs), len(pairs))


@pytest.mark.parametrize("times", [(0.0, 1.0), (1.0, 0.0)])
def test_a_time_of_nothing_is_refused(times: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"s_s is 0\.0; it must be finite and between"):
        pair(*times)


def test_cells_and_tools_are_kept_apart() -> None:
    other = TwoClocks("flash", 64, TORCH_TIMER, 1.0, 2.0, True)
    found = agreements([pair(1.0, 1.0), pair(1.0, 3.0, tool=TRITON_TIMER), other, pair(1.0, 1.0)])
    assert [(each.implementation, each.tool, each.pairs) for each in found] == [
        ("naive", TORCH_TIMER, 2),
        ("naive", TRITON_TIMER, 1),
        ("flash", TORCH_TIMER, 1),
    ]
