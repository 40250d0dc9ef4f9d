"""Decode traffic and its crossover: the published figures, the closed forms against a search, the laws."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.cost import InexactResultWarning, is_exact
from lab.cost.catalog import model, models
from lab.cost.experts import expected_distinct_experts
from lab.cost.serving import crossover_batch, crossover_tokens, decode_traffic
from lab.cost.step_weights import step_weights
from tests.cost import tiny_models

GPT2, LLAMA = model("gpt2"), model("llama-2-7b")
names = st.sampled_from(sorted(models()))


def test_gpt2_at_1024_crosses_near_batch_6_point_6() -> None:
    assert f"{crossover_batch(GPT2, 1024):.1f}" == "6.6"
    assert f"{crossover_batch(GPT2, 1024, weight_bytes=249e6):.1f}" == "6.6"


def test_crossover_tokens_of_llama_2_7b_with_norms_counted() -> None:
    assert round(crossover_tokens(LLAMA, 1)) == 25_205
    assert round(crossover_tokens(LLAMA, 32)) == 788


def test_the_chapters_rule_reads_all_249_mb_of_gpt2() -> None:
    assert round(crossover_tokens(GPT2, 1, weight_bytes=2 * GPT2.parameters)) == 6_751


def test_a_step_reads_a_row_of_the_input_embedding_and_a_tied_table_as_the_head() -> None:
    untied, tied = step_weights(LLAMA), step_weights(GPT2)
    assert untied.fixed == LLAMA.parameters - 32_000 * 4096
    assert untied.per_sequence == 4096
    assert tied.fixed == GPT2.parameters - 1024 * 768  # positions are looked up, the token table is the head
    assert tied.per_sequence == 768


def test_traffic_counts_weights_once_and_the_cache_per_sequence() -> None:
    one, many = decode_traffic(LLAMA, 1, 8192), decode_traffic(LLAMA, 32, 8192)
    assert one.cache_bytes == 4 * 2**30
    assert many.cache_bytes == 32 * one.cache_bytes
    assert many.weight_bytes - one.weight_bytes == 31 * 4096 * 2
    assert is_exact(one.total_bytes)
    assert not one.weights_are_expected


def test_narrow_weights_and_caches_move_the_crossover() -> None:
    assert crossover_tokens(LLAMA, 8, weight_type=0.5) == pytest.approx(crossover_tokens(LLAMA, 8) / 4)
    assert crossover_tokens(LLAMA, 8, k_type="q8_0") == pytest.approx(crossover_tokens(LLAMA, 8) * 32 / 17)


@given(name=names, context=st.integers(1, 200_000))
@settings(max_examples=40, deadline=None)
def test_at_the_crossover_batch_cache_and_weights_are_equal(name: str, context: int) -> None:
    batch = crossover_batch(model(name), context)
    below, above = max(1, math.floor(batch)), math.floor(batch) + 1
    assert decode_traffic(model(name), above, context).cache_over_weights >= 1 - 1e-9
    if below <= batch:
        assert decode_traffic(model(name), below, context).cache_over_weights <= 1 + 1e-9


@given(name=names, batch=st.integers(1, 4096))
@settings(max_examples=40, deadline=None)
def test_at_the_crossover_context_cache_and_weights_are_equal(name: str, batch: int) -> None:
    tokens = crossover_tokens(model(name), batch)
    if math.isinf(tokens):
        assert decode_traffic(model(name), batch, 10**9).cache_over_weights < 1
        return
    assert decode_traffic(model(name), batch, math.floor(tokens) + 1).cache_over_weights >= 1 - 1e-9
    if tokens >= 1:
        assert decode_traffic(model(name), batch, math.floor(tokens)).cache_over_weights <= 1 + 1e-9


@pytest.mark.parametrize("name", ["gpt2", "gemma-2-9b", "mixtral-8x7b", "deepseek-v3", "mistral-7b-v0.1"])
def test_arrays_equal_scalars(name: str) -> None:
    batches, contexts = np.array([1, 3, 64]), np.array([1, 5_000, 100_000])
    shape = model(name)
    assert crossover_batch(shape, contexts) == pytest.approx(
        [crossover_batch(shape, int(t)) for t in contexts]
    )
    assert crossover_tokens(shape, batches) == pytest.approx(
        [crossover_tokens(shape, int(b)) for b in batches]
    )
    totals = decode_traffic(shape, batches, contexts).total_bytes
    pairs = zip(batches, contexts, strict=True)
    assert totals == pytest.approx([decode_traffic(shape, int(b), int(t)).total_bytes for b, t in pairs])


def test_windows_everywhere_can_keep_the_cache_below_the_weights_for_ever() -> None:
    mistral = model("mistral-7b-v0.1")
    assert crossover_tokens(mistral, 1) == math.inf
    assert crossover_tokens(mistral, 64) < 4096


def test_experts_read_more_weights_with_the_batch_up_to_all_of_them() -> None:
    mixtral = model("mixtral-8x7b")
    weights = step_weights(mixtral)
    one = decode_traffic(mixtral, 1, 1)
    assert one.weights_are_expected
    rows = 32_000 * 4096
    assert one.weight_bytes == pytest.approx(2 * (mixtral.active_parameters - rows + 4096))
    everything = weights.fixed + sum(mixture.parameters for mixture in weights.mixtures)
    assert everything == mixtral.parameters - rows
    assert decode_traffic(mixtral, 10_000, 1).weight_bytes == pytest.approx(2 * (everything + 10_000 * 4096))


def test_expected_distinct_experts_equals_a_simulation() -> None:
    generator = np.random.default_rng(0)
    draws = [
        len({expert for _ in range(6) for expert in generator.permutation(16)[:2]}) for _ in range(4_000)
    ]
    assert expected_distinct_experts(16, 2, 6) == pytest.approx(np.mean(draws), rel=0.02)


@given(experts=st.integers(1, 256), share=st.floats(0, 1), tokens=st.integers(1, 1000))
def test_distinct_experts_lie_between_active_and_all(experts: int, share: float, tokens: int) -> None:
    active = max(1, round(experts * share))
    distinct = expected_distinct_experts(experts, active, tokens)
    assert active - 1e-9 <= distinct <= experts
    assert expected_distinct_experts(experts, active, 1) == pytest.approx(active)


def test_a_layer_that_shares_a_cache_reads_it_once_more_but_keeps_nothing() -> None:
    own = tiny_models.layer(tiny_models.attention(), tiny_models.dense())
    sharer = replace(own, attention=replace(own.attention, shares_cache=True))
    both = tiny_models.shape([own, sharer], (0, 1, 1))
    alone = tiny_models.shape([own], (0,))
    assert decode_traffic(both, 1, 100).cache_bytes == 3 * decode_traffic(alone, 1, 100).cache_bytes


def test_cross_attention_reads_the_other_sequence_whatever_the_context() -> None:
    cross = replace(tiny_models.attention(4), source_hidden=64)
    kind = replace(tiny_models.layer(tiny_models.attention(), tiny_models.dense()), cross_attention=cross)
    shape = tiny_models.shape([kind], (0,))
    assert step_weights(shape).fixed == shape.parameters - shape.embedding_parameters - 2 * 64 * 64
    short, long = (decode_traffic(shape, 1, t, source_tokens=1500).cache_bytes for t in (1, 2))
    assert short - (long - short) == 1500 * 2 * 64 * 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: crossover_batch(GPT2, 0), "context must be a whole number of at least 1"),
        (lambda: crossover_tokens(GPT2, -1), "batch must be a whole number of at least 1"),
        (lambda: decode_traffic(GPT2, 1, 1, weight_type="fp3"), "dtype must be one of"),
        (lambda: decode_traffic(GPT2, 1, 1, weight_type=0), "weight_type must be"),
        (lambda: decode_traffic(GPT2, 1, 1, k_type="fp3"), "storage type must be one of"),
        (lambda: crossover_batch(GPT2, 1, weight_bytes=-1.0), "weight_bytes must be a number more than 0"),
        (lambda: expected_distinct_experts(4, 5, 1), "active must be at most experts=4, got 5"),
    ],
)
def test_bad_questions_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_traffic_of_huge_arrays_never_wraps_around() -> None:
    gpt2 = model("gpt2")
    batch = np.array([10**16])
    with pytest.warns(InexactResultWarning):
        traffic = decode_traffic(gpt2, batch, 1)
    exact = decode_traffic(gpt2, 10**16, 1)
    assert traffic.weight_bytes[0] == pytest.approx(float(exact.weight_bytes))
    assert traffic.cache_bytes[0] == pytest.approx(float(exact.cache_bytes))
    with pytest.warns(InexactResultWarning):
        assert traffic.total_bytes[0] == pytest.approx(float(exact.total_bytes))
    assert exact.total_bytes == exact.weight_bytes + exact.cache_bytes


@pytest.mark.parametrize("model_id", ["gpt2", "mixtral-8x7b"])
def test_sizes_beyond_float64_are_refused_where_a_ratio_is_asked(model_id: str) -> None:
    shape, huge = model(model_id), 10**400
    for refused in (
        lambda: crossover_batch(shape, huge),
        lambda: crossover_tokens(shape, huge),
        lambda: crossover_tokens(shape, 1, weight_bytes=huge),
        lambda: decode_traffic(shape, 1, huge).cache_over_weights,
    ):
        with pytest.raises(ValueError, match=r"below 2\*\*1024"):
            refused()
