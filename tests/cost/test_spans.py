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
