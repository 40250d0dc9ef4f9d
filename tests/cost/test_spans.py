"""Pairs scored in windows, chunks and cross-attention, against counting positions one by one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cost import attention_pairs
from lab.cost.layers import Attention
from lab.cost.spans import chunked_pairs, scored_pairs

small = st.integers(1, 40)
FULL = Attention(hidden=64, heads=4, kv_heads=2, head_dim=16, head_dim_v=16)


@given(q_len=small, before=st.integers(0, 60), chunk=st.integers(1, 50))
def test_chunked_pairs_equal_a_loop_over_positions(q_len: int, before: int, chunk: int) -> None:
    by_loop = sum(position % chunk + 1 for position in range(before, before + q_len))
    assert chunked_pairs(q_len, before + q_len, chunk) == by_loop


@given(lengths=st.lists(small, min_size=1, max_size=5), before=st.integers(0, 60), chunk=st.integers(1, 50))
def test_chunked_pairs_of_arrays_equal_scalars(lengths: list[int], before: int, chunk: int) -> None:
    q_len = np.array(lengths)
    expected = [chunked_pairs(length, before + length, chunk) for length in lengths]
    assert chunked_pairs(q_len, q_len + before, chunk).tolist() == expected


@given(q_len=small, before=small)
def test_one_chunk_around_everything_is_full_attention(q_len: int, before: int) -> None:
    context = q_len + before
    assert chunked_pairs(q_len, context, context) == attention_pairs(q_len, context, True)


def test_each_span_counts_what_its_mask_keeps() -> None:
    window, chunk = replace(FULL, window=8), replace(FULL, chunk=8)
    assert scored_pairs(FULL, 32, 32, causal=True) == 32 * 33 // 2
    assert scored_pairs(window, 32, 32, causal=True) == sum(min(i, 8) for i in range(1, 33))
    assert scored_pairs(chunk, 32, 32, causal=True) == 4 * 36
    assert {scored_pairs(layer, 32, 32, causal=False) for layer in (FULL, window, chunk)} == {32 * 32}


def test_cross_attention_scores_the_other_sequence_with_or_without_a_causal_mask() -> None:
    cross = replace(FULL, source_hidden=64)
    for causal in (False, True):
        assert scored_pairs(cross, 10, 10, causal=causal, source_tokens=1500) == 15_000
    with pytest.raises(ValueError, match="source_tokens must be given"):
        scored_pairs(cross, 10, 10, causal=True)


@given(
    ends=st.lists(st.integers(1, 2**62), min_size=1, max_size=4),
    q_len=st.integers(1, 2**20),
    limit=st.integers(1, 2**62),
)
def test_few_queries_after_many_keys_are_exact_in_arrays(ends: list[int], q_len: int, limit: int) -> None:
    """Differences of large prefixes once wrapped around, or lost the leading digits in float64."""
    keys = np.array([max(end, q_len) for end in ends])
    for pairs in (
        lambda kv_len: attention_pairs(q_len, kv_len, True, limit),
        lambda kv_len: chunked_pairs(q_len, kv_len, limit),
    ):
        exact = [pairs(int(kv_len)) for kv_len in keys]
        if max(exact) < 2**62:
            assert pairs(keys).dtype == np.int64
            assert pairs(keys).tolist() == exact


def test_three_tokens_late_in_a_chunk() -> None:
    """Position p sees p mod chunk + 1 keys: 35,556 + 35,557 + 35,558, less than a smaller context's."""
    assert chunked_pairs(np.array([3]), np.array([9_227_903_782_410_815]), 65_037).tolist() == [106_671]
