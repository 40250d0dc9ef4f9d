"""Wrong implementations are caught, in every dtype and at every size; right ones with unlucky values are not."""

import math

import pytest
from measured_shapes import draw
from planted import (
    attention_with,
    heads_swapped,
    inverted_mask,
    late_rows_wrong,
    mask_off_by_one,
    missing_scale,
    no_mask,
    not_a_number,
    top_left_mask,
    wrong_shape,
    zeros,
)

from lab.measure.accuracy import ALL_ROWS_UP_TO, SAMPLED_ROWS, check, truth
from lab.measure.attention import naive_attention
from lab.measure.device import DTYPES

SQUARE = (1, 4, 4, 256, 256, 64)
FEW_QUERIES = (1, 4, 4, 100, 256, 64)


CAUGHT_ON_SQUARE = [missing_scale, inverted_mask, mask_off_by_one, no_mask, zeros, heads_swapped]
CAUGHT_ON_SQUARE += [late_rows_wrong, not_a_number, wrong_shape]


def fault_of(function, sizes: tuple[int, ...], dtype: str, causal: bool = True) -> str | None:
    q, k, v = draw(sizes, dtype)
    return check(function(q, k, v, causal=causal), truth(q, k, v, causal=causal)).fault


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("planted", CAUGHT_ON_SQUARE)
def test_a_planted_fault_is_caught(planted, dtype: str) -> None:
    assert fault_of(attention_with, SQUARE, dtype) is None
    assert fault_of(planted, SQUARE, dtype) is not None


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_mask_aligned_to_the_first_keys_is_caught(dtype: str) -> None:
    assert fault_of(attention_with, FEW_QUERIES, dtype) is None
    assert fault_of(top_left_mask, FEW_QUERIES, dtype) is not None


@pytest.mark.parametrize("length", [512, 4096])
@pytest.mark.parametrize("planted", [missing_scale, zeros, heads_swapped])
def test_full_attention_over_many_keys_hides_no_fault(planted, length: int) -> None:
    """Outputs shrink with the length; a tolerance in absolute terms would let zeros pass at some length."""
    assert fault_of(planted, (1, 2, 2, length, length, 16), "bf16", causal=False) is not None


@pytest.mark.parametrize(("dtype", "off"), [("bf16", 1.03), ("fp16", 1.01), ("fp32", 1.01), ("fp64", 1.01)])
@pytest.mark.parametrize("sizes", [(1, 4, 4, 128, 128, 64), (1, 2, 2, 50, 50, 16), (1, 1, 1, 1024, 1024, 64)])
@pytest.mark.parametrize("causal", [True, False])
def test_a_scale_that_is_a_little_off_is_caught(dtype: str, off: float, sizes, causal: bool) -> None:
    q, k, v = draw(sizes, dtype)
    expected = truth(q, k, v, causal=causal)
    for scale in (off, 2 - off):
        output = attention_with(q, k, v, causal=causal, scale=scale / math.sqrt(sizes[-1]))
        assert check(output, expected).fault is not None
    assert check(naive_attention(q, k, v, causal=causal), expected).fault is None


def test_the_fault_says_which_row_and_by_how_much() -> None:
    fault = fault_of(late_rows_wrong, SQUARE, "fp32")
    assert fault.startswith("1 of 256 rows differ from float64: row 255 by ")


def test_values_that_are_not_finite_have_no_error() -> None:
    q, k, v = draw(SQUARE, "fp32")
    accuracy = check(not_a_number(q, k, v, causal=True), truth(q, k, v, causal=True))
    assert accuracy.max_abs_error is None
    assert accuracy.fault == "the output holds NaN or infinity"


def test_rows_are_sampled_only_at_large_sizes_and_hold_both_ends() -> None:
    small = truth(*draw(SQUARE, "fp32"), causal=True)
    assert small.rows is None
    assert small.rows_text == "all"
    length = math.isqrt(ALL_ROWS_UP_TO) + 1
    large = truth(*draw((1, 1, 1, length, length, 4), "fp32"), causal=True)
    assert large.rows_text == "64 sampled rows"
    assert len(set(large.rows.tolist())) == SAMPLED_ROWS
    assert (int(large.rows[0]), int(large.rows[-1])) == (0, length - 1)


def test_a_single_query_against_a_long_cache_is_compared_whole() -> None:
    expected = truth(*draw((2, 4, 4, 1, ALL_ROWS_UP_TO // 4, 1), "bf16"), causal=True)
    assert expected.rows is None


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("head_dim", [1, 2, 8])
def test_rounding_alone_is_never_called_wrong(seed: int, head_dim: int) -> None:
    """Narrow heads, where the values of a row can cancel by chance."""
    for dtype in ("bf16", "fp32"):
        q, k, v = draw((1, 2, 1, 80, 80, head_dim), dtype, seed)
        assert check(naive_attention(q, k, v, causal=True), truth(q, k, v, causal=True)).fault is None
