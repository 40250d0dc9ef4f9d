"""Tiles: what a fused kernel computes, and which slot finishes last."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cost.formulas import attention_pairs
from lab.cost.tiles import (
    LIST,
    STATIC,
    Tile,
    block_pairs,
    causal_share,
    cpu_tile,
    cuda_tile,
    makespan,
    slot_pairs,
    tile_of_kernel,
    waves,
)
from lab.cost.traffic import operations

lengths = st.integers(1, 3000)
tiles = st.builds(Tile, st.integers(1, 300), st.integers(1, 600))
works = st.lists(st.integers(1, 100), min_size=1, max_size=60)


@given(lengths, tiles)
def test_full_attention_computes_every_pair_once(length: int, tile: Tile) -> None:
    assert sum(block_pairs(length, length, tile, False)) == length * length


@given(lengths, tiles)
def test_causal_work_lies_between_the_needed_pairs_and_all(length: int, tile: Tile) -> None:
    work = sum(block_pairs(length, length, tile, True))
    assert attention_pairs(length, length, True) <= work <= length * length


@given(lengths)
def test_tiles_of_one_row_and_one_key_waste_nothing(length: int) -> None:
    assert sum(block_pairs(length, length, Tile(1, 1), True)) == attention_pairs(length, length, True)


@given(st.integers(1, 500), st.integers(0, 500))
def test_causal_queries_are_the_last_ones(q_len: int, earlier: int) -> None:
    kv_len = q_len + earlier
    work = sum(block_pairs(q_len, kv_len, Tile(1, 1), True))
    assert work == attention_pairs(q_len, kv_len, True)


@given(lengths, st.booleans())
def test_cpu_tiles_agree_with_the_traffic_of_the_cpu_kernel(length: int, causal: bool) -> None:
    work = sum(block_pairs(length, length, cpu_tile(length, length), causal))
    shape = {"batch": 1, "heads": 1, "kv_heads": 1, "q_len": length, "kv_len": length, "head_dim": 1}
    (fused,) = operations("flash", dtype="fp32", causal=causal, **shape)
    assert fused.flops == 4 * work


@pytest.mark.parametrize(
    ("length", "share"), [(256, 1.0), (512, 1.0), (1024, 0.75), (2048, 0.625), (4096, 0.5625)]
)
def test_the_cpu_kernels_causal_saving_is_quantised(length: int, share: float) -> None:
    tile = cpu_tile(length, length)
    causal, full = (slot_pairs(12, length, length, tile, mask, 2, STATIC) for mask in (True, False))
    assert causal / full == share


@pytest.mark.parametrize(
    ("device", "threads", "share"),
    [("cpu", 5, 184 / 312), ("cpu", 16, 66 / 96), ("cuda", 16, 58 / 96)],  # 12 heads of 16 blocks
)
def test_a_cpu_gives_each_thread_its_blocks_in_advance(device: str, threads: int, share: float) -> None:
    assert causal_share(12, 4096, 4096, cpu_tile(4096, 4096), threads, device) == share


def test_diagonal_tiles_at_512_cost_an_eighth_more_than_the_mask_needs() -> None:
    work = sum(block_pairs(512, 512, Tile(64, 64), True))
    assert work == 36 * 64 * 64
    assert work / attention_pairs(512, 512, True) == pytest.approx(1.123, abs=5e-4)


@given(works, st.integers(1, 40), st.sampled_from([LIST, STATIC]))
def test_the_last_slot_takes_at_least_a_fair_share_and_at_most_all(work, slots, schedule) -> None:
    last = makespan(work, slots, schedule)
    assert max(max(work), sum(work) / slots) <= last <= sum(work)


@given(works, st.integers(1, 40))
def test_list_scheduling_keeps_grahams_bound(work: list[int], slots: int) -> None:
    best = max(max(work), sum(work) / slots)
    assert makespan(work, slots) <= (2 - 1 / slots) * best + 1e-9


@given(st.integers(1, 500), st.integers(1, 200))
def test_equal_items_run_in_waves(items: int, slots: int) -> None:
    assert makespan([1] * items, slots) == waves(items, slots)
    assert makespan([1] * items, slots, STATIC) == waves(items, slots)


def test_a_free_slot_takes_the_next_item_while_fixed_shares_wait() -> None:
    assert makespan([5, 1, 1, 1], 2) == 5
    assert makespan([5, 1, 1, 1], 2, STATIC) == 6


@pytest.mark.parametrize(
    ("arguments", "tile"),
    [
        (("efficient", 64, "7.5"), "64x64"),
        (("efficient", 64, "9.0"), "64x64"),
        (("efficient", 128, "8.0"), "64x128"),
        (("efficient", 128, "7.5"), "32x128"),
        (("efficient", 256, "9.0"), "32x128"),
        (("flash", 64, "8.0"), "128x128"),
        (("flash", 128, "9.0"), "128x64"),
    ],
)
def test_cuda_kernels_have_the_tiles_of_their_source(arguments, tile: str) -> None:
    assert cuda_tile(*arguments).name == tile


@pytest.mark.parametrize(
    ("kernel", "tile"),
    [
        ("fmha_cutlassF_f16_aligned_64x64_rf_sm75(PyTorchMemEffAttention::AttentionKernel<…>)", (64, 64)),
        ("fmha_cutlassF_f32_aligned_64x128_rf_sm80", (64, 128)),
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false>", (128, 128)),
        (
            "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128,128,64,4>",
            (128, 64),
        ),
        ("ampere_sgemm_64x32_sliced1x4_nn", None),
        ("softmax_warp_forward", None),
    ],
)
def test_tiles_are_read_from_attention_kernels_only(kernel: str, tile) -> None:
    assert tile_of_kernel(kernel) == tile


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: block_pairs(8, 4, Tile(2, 2), True),
            "kv_len must be at least q_len when causal, got kv_len=4",
        ),
        (lambda: makespan([1], 0), "slots must be at least 1, got 0"),
        (lambda: makespan([1], 1, "fair"), "schedule must be list or static, got 'fair'"),
        (lambda: waves(0, 3), "items and slots must be at least 1, got items=0 and slots=3"),
        (lambda: cuda_tile("math", 64, "8.0"), "implementation must be efficient or flash to have tiles"),
    ],
)
def test_bad_arguments_are_refused_in_words(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
