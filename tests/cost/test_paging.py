from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cost.cache import CacheLayers
from lab.cost.paging import block_pool, blocks_of

GIB = 2**30


def layers(count, token=1024, **options):
    return CacheLayers(kind=options.pop("kind", "full"), layers=count, k_token_bytes=token, **options)


def window(count, limit, token=1024):
    return layers(count, token, kind=f"window {limit}", span="window", limit=limit)


def test_blocks_are_the_memory_over_block_bytes_rounded_down():
    pool = block_pool([layers(32, 4096)], 10 * 16 * 32 * 4096 + 5, 160)
    assert pool.blocks == 10
    assert pool.request_blocks == 10
    assert pool.concurrency == 1
    assert pool.tokens == 160


def test_concurrency_is_blocks_times_block_tokens_over_max_len_when_it_divides():
    pool = block_pool([layers(32, 4096)], GIB, 320)
    assert pool.concurrency == Fraction(pool.blocks * 16, 320)


def test_a_window_takes_its_tokens_a_step_and_one_block_more():
    pool = block_pool([layers(18), window(18, 128)], GIB, 131_072, max_batched_tokens=1024)
    full, local = pool.groups
    assert full.request_blocks == 8192
    assert local.request_blocks == blocks_of(127 + 1024, 16) + 1 == 73


def test_a_chunk_takes_its_tokens_and_a_step():
    chunk = layers(6, kind="chunks", span="chunks", limit=8192)
    pool = block_pool([layers(2), chunk], GIB, 131_072, max_batched_tokens=2048)
    assert pool.groups[1].request_blocks == (8192 + 2048) // 16


def test_groups_have_the_layers_of_the_rarest_kind():
    pool = block_pool([layers(10), window(52, 1024)], GIB, 4096)
    assert [group.groups for group in pool.groups] == [1, 6]  # the last group is padded, as in vLLM
    assert pool.block_bytes == 10 * 16 * 1024


def test_kinds_about_as_frequent_share_groups_of_the_larger_number():
    pool = block_pool([layers(13), window(12, 128)], GIB, 4096)
    assert [group.groups for group in pool.groups] == [1, 1]
    assert pool.block_bytes == 13 * 16 * 1024


def test_narrower_layers_take_longer_blocks_so_that_pages_are_equal():
    pool = block_pool([layers(8, 1024), window(40, 1024, 4096)], GIB, 8192)
    assert [group.block_tokens for group in pool.groups] == [64, 16]


def test_pages_that_cannot_be_equal_are_refused():
    with pytest.raises(ValueError, match="pages of equal size"):
        block_pool([layers(8, 1000), window(8, 1024, 1536)], GIB, 8192)


def test_blocks_grow_until_a_recurrent_state_fits():
    state = CacheLayers(kind="state", layers=48, span="state", sequence_bytes=1_603_584)
    pool = block_pool([layers(16), state], GIB, 131_072, state_mode="align")
    assert pool.groups[0].block_tokens == 1568
    assert pool.request_blocks == 84 + 3 * 2


def test_a_model_of_states_alone_takes_one_block_a_layer_group():
    state = CacheLayers(kind="state", layers=24, span="state", sequence_bytes=1000)
    pool = block_pool([state], 100 * 24 * 1000, 4096)
    assert (pool.blocks, pool.request_blocks) == (100, 1)


def test_nothing_to_page_is_refused():
    with pytest.raises(ValueError, match="at least one layer with a cache"):
        block_pool([CacheLayers(kind="none", layers=3)], GIB, 16)


def test_an_unknown_state_mode_is_refused():
    with pytest.raises(ValueError, match="state_mode must be one of none, align, got 'x'"):
        block_pool([layers(1)], GIB, 16, state_mode="x")


@pytest.mark.parametrize("name", ["available_bytes", "max_tokens", "block_tokens", "max_batched_tokens"])
def test_sizes_below_one_are_refused(name):
    sizes = {"available_bytes": GIB, "max_tokens": 16, name: 0}
    with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 1, got 0"):
        block_pool([layers(1)], **sizes)


@given(st.integers(1, 10**6), st.integers(1, 512))
def test_blocks_hold_the_tokens_with_less_than_a_block_to_spare(tokens, block):
    assert 0 <= blocks_of(tokens, block) * block - tokens < block


@given(st.integers(1, 64), st.integers(1, 5000), st.integers(1, 5000))
def test_a_window_never_takes_more_than_one_block_beyond_full_attention(count, limit, tokens):
    full = block_pool([layers(count)], GIB, tokens)
    local = block_pool([window(count, limit)], GIB, tokens)
    assert local.request_blocks <= full.request_blocks + 1
