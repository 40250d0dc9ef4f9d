"""Parallel plans: the ranks sum to the whole, what is held twice is stated, and what they send."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.cost.budget import budget
from lab.cost.cache import cache_bytes
from lab.cost.catalog import model, models
from lab.cost.parallel import (
    all_gather_bytes,
    all_reduce_bytes,
    context_parallel,
    idle_share,
    pipeline_parallel,
    stage_orders,
    tensor_parallel,
    token_ranges,
)
from lab.cost.recurrent import short_convolution
from lab.cost.shapes import LayerKind, ModelShape, Workload, decode, prefill
from tests.cost import tiny_models

names = st.sampled_from(sorted(models()))
SMALL = decode(2, 64, "bf16")


def one_kind(**changes) -> ModelShape:
    return tiny_models.shape(
        [tiny_models.layer(tiny_models.attention(**changes), tiny_models.dense())], (0, 0)
    )


def fits(shape: ModelShape, ranks: int) -> bool:
    try:
        tensor_parallel(shape, SMALL, ranks)
    except ValueError:
        return False
    return True


@given(
    name=names,
    ranks=st.sampled_from([1, 2, 3, 4, 8, 16]),
    work=st.sampled_from([SMALL, prefill(1, 96, "fp32")]),
)
@settings(max_examples=80, deadline=None)
def test_tensor_parallel_ranks_sum_to_the_whole(name: str, ranks: int, work: Workload) -> None:
    shape = model(name)
    if not fits(shape, ranks):
        return
    plan = tensor_parallel(shape, work, ranks)
    assert sum(rank.parameters for rank in plan.ranks) == shape.parameters + plan.replicated_parameters
    kept = cache_bytes(shape, work.batch, work.context).total_bytes
    assert sum(rank.kv_bytes for rank in plan.ranks) == kept + plan.replicated_kv_bytes
    assert sum(rank.core_flops for rank in plan.ranks) == budget(shape, work).core_flops
    assert all(extra > 0 for extra in plan.replicated.values())
    assert plan.replicated_kv_bytes >= 0


def test_most_catalogue_models_split_over_eight_ranks_or_say_why_not() -> None:
    split = [name for name in models() if fits(model(name), 8)]
    assert {"llama-3-70b", "llama-3.1-405b", "gemma-2-27b", "deepseek-v3", "mixtral-8x7b"} <= set(split)
    with pytest.raises(ValueError, match="ranks must divide heads=12, got ranks=8"):
        tensor_parallel(model("gpt2"), SMALL, 8)


def test_one_rank_is_the_model_and_sends_nothing() -> None:
    for plan in (
        tensor_parallel(model("llama-3-8b"), SMALL, 1),
        pipeline_parallel(model("llama-3-8b"), SMALL, 1),
        context_parallel(model("llama-3-8b"), SMALL, 1),
    ):
        assert plan.sent_bytes == 0
        assert plan.replicated_parameters == 0
        assert plan.largest.weight_bytes == 2 * model("llama-3-8b").parameters
        assert plan.largest.kv_bytes == cache_bytes(model("llama-3-8b"), 2, 64).total_bytes


def test_llama_3_70b_over_eight_ranks() -> None:
    """One KV head a rank, an eighth of the matrices, two all-reduces a layer and one after the embedding."""
    llama = model("llama-3-70b")
    plan = tensor_parallel(llama, decode(1, 8192, "bf16"), 8)
    norms = (2 * 80 + 1) * 8192
    assert plan.largest.parameters == (llama.parameters - norms) // 8 + norms
    assert plan.largest.kv_bytes == 2 * 80 * 8192 * 128 * 2
    assert plan.replicated_kv_bytes == 0
    reduced = [message for message in plan.largest.messages if message.name.startswith("all-reduce")]
    assert sum(message.times for message in reduced) == 161
    assert {message.sent_bytes for message in reduced} == {8192 * 2 * 2 * 7 // 8}


def test_more_ranks_than_kv_heads_hold_each_head_several_times() -> None:
    llama = model("llama-3-8b")
    plan = tensor_parallel(llama, decode(1, 1024, "bf16"), 32)
    kept = cache_bytes(llama, 1, 1024).total_bytes
    assert plan.replicated_kv_bytes == 3 * kept
    assert plan.replicated["k, v"] == 3 * 32 * 2 * 4096 * 1024
    assert plan.notes == ("8 KV heads on 32 ranks: each head is held 4 times",)


def test_mla_keeps_its_latent_rows_whole_on_every_rank() -> None:
    deepseek = model("deepseek-v3")
    plan = tensor_parallel(deepseek, decode(1, 1024, "bf16"), 8)
    assert plan.replicated_kv_bytes == 7 * cache_bytes(deepseek, 1, 1024).total_bytes
    assert "kv_a" in plan.replicated
    assert "latent rows are kept whole by each of the 8 ranks" in plan.notes[0]


@pytest.mark.parametrize("tied", [False, True])
def test_a_vocabulary_that_does_not_divide_leaves_the_last_rank_fewer_rows(tied: bool) -> None:
    shape = replace(one_kind(), tied_embeddings=tied)  # 101 rows
    plan = tensor_parallel(shape, SMALL, 2)
    tables = 1 if tied else 2
    assert plan.ranks[0].parameters - plan.ranks[1].parameters == tables * (51 - 50) * 64


@given(name=names, stages=st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_pipeline_stages_sum_to_the_whole(name: str, stages: int) -> None:
    shape = model(name)
    plan = pipeline_parallel(shape, SMALL, stages)
    assert sum(rank.parameters for rank in plan.ranks) == shape.parameters + plan.replicated_parameters
    assert sum(rank.kv_bytes for rank in plan.ranks) == cache_bytes(shape, 2, 64).total_bytes
    assert sum(rank.core_flops for rank in plan.ranks) == budget(shape, SMALL).core_flops
    assert plan.sent_bytes == (stages - 1) * 2 * shape.hidden * 2
    sizes = [len(order) for order in stage_orders(shape, stages)]
    assert max(sizes) - min(sizes) <= 1
    assert sum(stage_orders(shape, stages), ()) == shape.order


def test_a_tied_table_stands_on_the_first_and_the_last_stage() -> None:
    gpt2 = model("gpt2")
    assert pipeline_parallel(gpt2, SMALL, 4).replicated == {"tied token table": 50257 * 768}
    assert pipeline_parallel(model("llama-2-7b"), SMALL, 4).replicated == {}


def test_a_hybrid_can_be_cut_between_any_layers() -> None:
    mixer = short_convolution(64, kernel=3, bias=False)
    recurrent = LayerKind(
        attention=None, recurrent=mixer, feed_forward=tiny_models.dense(), norm_parameters=0
    )
    hybrid = tiny_models.shape([*one_kind().kinds, recurrent], (1, 1, 0))
    plan = pipeline_parallel(hybrid, SMALL, 3)
    assert sum(rank.kv_bytes for rank in plan.ranks) == cache_bytes(hybrid, 2, 64).total_bytes
    with pytest.raises(ValueError, match="tensor parallelism of recurrent layers is not modelled"):
        tensor_parallel(hybrid, SMALL, 2)
    with pytest.raises(ValueError, match="attention over their own tokens only"):
        context_parallel(hybrid, SMALL, 2)


def test_idle_share_of_a_pipeline() -> None:
    assert idle_share(4, 1) == Fraction(3, 4)
    assert idle_share(4, 12) == Fraction(1, 5)
    assert idle_share(1, 8) == 0


@given(
    ranks=st.integers(1, 6),
    chunk=st.integers(1, 6),
    order=st.sampled_from(["balanced", "contiguous"]),
    span=st.sampled_from([{}, {"window": 7}, {"chunk": 5}]),
    causal=st.booleans(),
    step=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_context_parallel_ranks_share_out_every_pair(ranks, chunk, order, span, causal, step) -> None:
    context = 2 * ranks * chunk
    shape = one_kind(**span)
    work = Workload(2, context, 1 if step else context, "fp32", causal)
    plan = context_parallel(shape, work, ranks, order=order)
    assert sum(rank.core_flops for rank in plan.ranks) == budget(shape, work).core_flops
    positions = sorted(p for ranges in token_ranges(context, ranks, order) for r in ranges for p in range(*r))
    assert positions == list(range(context))


@given(ranks=st.integers(1, 6), chunk=st.integers(1, 6))
def test_pairs_of_a_rank_equal_the_mask(ranks: int, chunk: int) -> None:
    context = 2 * ranks * chunk
    mask = np.tril(np.ones((context, context), dtype=bool))
    plan = context_parallel(one_kind(), prefill(1, context, "fp32"), ranks)
    for rank, ranges in zip(plan.ranks, token_ranges(context, ranks), strict=True):
        pairs = sum(int(mask[first:end].sum()) for first, end in ranges)
        assert rank.core_flops == 2 * 4 * pairs * 4 * 16  # two layers, four heads of 16


def test_the_balanced_order_evens_out_causal_work_and_the_contiguous_one_does_not() -> None:
    llama, work = model("llama-3-8b"), prefill(1, 131_072, "bf16")
    balanced = [rank.core_flops for rank in context_parallel(llama, work, 8).ranks]
    contiguous = [rank.core_flops for rank in context_parallel(llama, work, 8, order="contiguous").ranks]
    assert len(set(balanced)) == 1
    assert contiguous[-1] > 14 * contiguous[0]


def test_ring_and_all_gather_send_the_same_and_hold_different_buffers() -> None:
    llama, work = model("llama-3-8b"), prefill(1, 131_072, "bf16")
    ring, gathered = (context_parallel(llama, work, 8, exchange=e) for e in ("ring", "all-gather"))
    layer = 131_072 * 2 * 8 * 128 * 2  # K and V of one layer
    assert ring.sent_bytes == gathered.sent_bytes == 8 * 32 * layer * 7 // 8
    assert (ring.largest.buffer_bytes, gathered.largest.buffer_bytes) == (2 * layer // 8, layer)
    assert ring.largest.kv_bytes == 32 * layer // 8


def test_a_decode_step_merges_partial_outputs_whatever_the_context() -> None:
    sent = {context_parallel(model("llama-3-8b"), decode(4, t, "bf16"), 8).sent_bytes for t in (1024, 65_536)}
    assert sent == {8 * 7 * 32 * 4 * 32 * (128 * 2 + 4)}


def test_collectives() -> None:
    assert all_reduce_bytes(1000, 1) == all_gather_bytes(1000, 1) == 0
    assert all_reduce_bytes(1000, 4) == 1500
    assert all_gather_bytes(1000, 4) == 750
    assert all_reduce_bytes(1001, 3) == 1335  # rounded up, never a fraction


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tensor_parallel(one_kind(), SMALL, 0), "ranks must be a whole number of at least 1"),
        (lambda: tensor_parallel(one_kind(), SMALL, 3), "ranks must divide heads=4, got ranks=3"),
        (
            lambda: pipeline_parallel(one_kind(), SMALL, 3),
            "stages must be at most the number of layers, 2, got 3",
        ),
        (lambda: context_parallel(one_kind(), SMALL, 3), "context must be a multiple of 6"),
        (lambda: context_parallel(one_kind(), SMALL, 2, exchange="mesh"), "exchange must be one of ring"),
        (lambda: context_parallel(one_kind(), SMALL, 2, order="random"), "order must be one of balanced"),
        (
            lambda: context_parallel(one_kind(), Workload(1, 8, 2, "fp32"), 2),
            "q_len must be 1 or the context",
        ),
        (lambda: idle_share(0, 1), "stages must be a whole number"),
    ],
)
def test_plans_that_do_not_fit_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
