"""Scores: means, worst cells and misses of held-out cells only."""

import pytest

from lab.cost.score import FITTED, Cell, by_family, score

CELLS = [
    Cell("a", "first", 1.1, 1.0),
    Cell("a", "second", 0.7, 1.0),
    Cell("a", "fitted", 9.0, 1.0, FITTED),
    Cell("b", "third", 1.0, 1.0),
]


def test_a_score_is_the_mean_of_absolute_errors_of_held_out_cells() -> None:
    result = score(CELLS)
    assert result.cells == 3
    assert result.mean_absolute_error == pytest.approx((0.1 + 0.3 + 0) / 3)
    assert result.bias == pytest.approx((0.1 - 0.3) / 3)


def test_misses_are_listed_worst_first() -> None:
    result = score(CELLS, limit=0.05)
    assert [cell.label for cell in result.misses] == ["second", "first"]
    assert result.worst.label == "second"
    assert score(CELLS, limit=0.5).misses == ()


def test_families_are_scored_apart() -> None:
    scores = by_family(CELLS)
    assert list(scores) == ["a", "b"]
    assert scores["a"].mean_absolute_error == pytest.approx(0.2)
    assert by_family([CELLS[2]]) == {}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: score([CELLS[2]]), "cells must hold at least one that was held out"),
        (lambda: Cell("a", "x", 0.0, 1.0), "predicted must be above 0 in cell 'x', got 0.0"),
        (lambda: Cell("a", "x", 1.0, float("nan")), "measured must be above 0 in cell 'x', got nan"),
        (lambda: Cell("a", "x", 1.0, 1.0, "guessed"), "role must be 'held out' or 'fitted', got 'guessed'"),
    ],
)
def test_bad_cells_are_refused_in_words(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
