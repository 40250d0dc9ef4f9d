from dataclasses import replace

import pytest

from lab.cost import catalog
from lab.cost.deployment import Deployment, kept_layers, needed_bytes, reserved_bytes
from lab.cost.terms import (
    TERMS,
    answer_steps,
    cards_for_weights,
    fuse_elementwise,
    memory_bytes,
    score_peak_bytes,
    sequences_that_fit,
    step_bytes,
    traffic_bytes,
)
from lab.cost.traffic import operations

LLAMA = Deployment(model=catalog.model("llama-2-7b"), batch=1, context=8192, max_context=8192)


def test_15_sequences_of_8192_fit_in_80_gb_and_16_in_80_gib():
    assert sequences_that_fit(LLAMA, 80 * 10**9) == 15  # the second source says about 40
    assert sequences_that_fit(LLAMA, 80 * 2**30) == 16
    assert sequences_that_fit(LLAMA, 10**9) == 0


def test_weights_take_as_many_cards_as_they_fill():
    weights = 2 * LLAMA.model.parameters
    for memory, cards in (
        (weights + 1, 1),
        (weights, 1),
        (weights - 1, 2),
        (weights // 3 + 1, 3),
        (10**9, 14),
    ):
        assert cards_for_weights(LLAMA, memory) == cards
    with pytest.raises(ValueError, match="memory"):
        cards_for_weights(LLAMA, 0)


def test_memory_is_weights_cache_and_the_peak_of_one_attention_call():
    flash = replace(LLAMA, implementation="flash")
    assert memory_bytes(flash) == 2 * LLAMA.model.parameters + 4 * 2**30 + score_peak_bytes(flash)


def test_without_a_cache_nothing_is_kept_or_reserved():
    bare = replace(LLAMA, cached=False)
    assert kept_layers(bare) == ()
    assert needed_bytes(bare) == reserved_bytes(bare) == 0
    assert step_bytes(bare) == 2 * LLAMA.model.parameters


def test_fusing_keeps_the_two_matrix_products():
    shape = {"batch": 1, "heads": 2, "kv_heads": 2, "q_len": 64, "kv_len": 64, "head_dim": 8}
    passes = operations("naive", **shape, dtype="fp16", causal=True)
    fused = fuse_elementwise(passes)
    assert (fused[0], fused[-1]) == (passes[0], passes[-1])
    assert [step.flops for step in fused] == [passes[0].flops, 0, passes[-1].flops]
    scores = 2 * 64 * 64 * 2
    assert (fused[1].read_bytes, fused[1].written_bytes) == (scores, scores)


@pytest.mark.parametrize("implementation", ["naive", "naive_inplace", "flash"])
def test_latent_attention_has_a_peak_but_no_modelled_traffic(implementation):
    deepseek = replace(LLAMA, model=catalog.model("deepseek-v3"), implementation=implementation)
    assert traffic_bytes(deepseek) is None
    assert score_peak_bytes(deepseek) >= 128 * 8192 * 128 * 2
    assert score_peak_bytes(replace(deepseek, implementation="math")) is None


@pytest.mark.parametrize(
    ("answers", "places", "batches", "continuous"),
    [
        ((5,), 4, 5, 5),
        ((5, 5, 5, 5), 4, 5, 5),
        ((1, 9, 1, 1, 1), 2, 11, 9),
        ((4, 2, 3, 3), 1, 12, 12),
        ((10, 1, 1, 1, 10), 2, 21, 13),
    ],
)
def test_steps_until_all_have_their_answers(answers, places, batches, continuous):
    one = replace(LLAMA, batch=places, answers=answers)
    assert answer_steps(one) == batches
    assert answer_steps(replace(one, continuous=True)) == continuous
    assert -(-sum(answers) // places) <= continuous <= batches


def test_every_term_says_what_it_is():
    assert all(term.meaning and term.unit for term in TERMS.values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": 0}, "batch must be a whole number"),
        ({"context": 9000}, "context must be at most max_context = 8192, got 9000"),
        ({"reservation": "heap"}, "reservation must be one of contiguous, blocks, got 'heap'"),
        ({"answers": ()}, "answers must hold at least one request"),
        ({"answers": (3, 0)}, "answers must be a whole number of at least 1, got 0"),
    ],
)
def test_a_deployment_that_cannot_be_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(LLAMA, **change)
