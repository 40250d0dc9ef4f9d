from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cost import catalog
from lab.cost.cache import cache_bytes
from lab.cost.deployment import Deployment
from lab.cost.techniques import TECHNIQUES, effects, grouped, latent, quantised, shared_heads, windowed
from lab.cost.terms import TERMS

LLAMA = catalog.model("llama-2-7b")
MIXED = (16, 500, 20, 30, 1000, 8, 8, 8)


def deployment(**options):
    given = {"model": LLAMA, "batch": 4, "context": 8000, "max_context": 16_384, "answers": MIXED, **options}
    return Deployment(**given)


def before(technique_id, **options):
    """A deployment that the technique is missing from."""
    return deployment(cached=technique_id != "kv-cache", **options)


def by_term(technique_id, **options):
    return {
        effect.term: effect for effect in effects(TECHNIQUES[technique_id], before(technique_id, **options))
    }


@pytest.mark.parametrize("technique", TECHNIQUES.values(), ids=TECHNIQUES)
@pytest.mark.parametrize("model_id", ["llama-2-7b", "llama-2-13b", "gpt2-medium"])
def test_the_terms_named_are_the_terms_changed(technique, model_id):
    changed = {
        effect.term for effect in effects(technique, before(technique.id, model=catalog.model(model_id)))
    }
    assert changed == set(technique.changes)


def test_every_family_of_the_second_source_is_there():
    families = {technique.family for technique in TECHNIQUES.values()}
    assert {"IO-aware", "Sparse", "Shared", "Cached", "Managed", "Kernel"} <= families


@pytest.mark.parametrize("technique", TECHNIQUES.values(), ids=TECHNIQUES)
def test_techniques_name_known_terms_and_a_source(technique):
    assert set(technique.changes) <= TERMS.keys()
    assert technique.source
    assert technique.what
    assert technique.keeps


def test_flash_leaves_the_flops_and_needs_little_more_than_the_output():
    found = by_term("flash", batch=1)
    output = 32 * 8000 * 128 * 2
    assert output < found["attention peak"].after < 1.05 * output
    assert found["attention peak"].before > 2 * 32 * 8000 * 8000 * 2
    assert "attention FLOPs" not in found


def test_a_window_cuts_flops_and_cache_but_not_the_score_tensor_of_a_naive_kernel():
    found = by_term("window")
    assert found["cache needed"].after == 4 * 4096 * 512 * 1024
    assert "attention peak" not in found
    assert "attention traffic" not in found


def test_grouping_32_heads_to_8_is_a_quarter_of_the_cache_and_the_same_attention_flops():
    found = by_term("gqa")
    assert found["cache needed"].factor * 4 == 1
    assert "attention FLOPs" not in found
    assert by_term("mqa")["cache needed"].factor * 32 == 1


def test_the_latent_form_keeps_four_and_a_half_head_widths_a_token():
    found = by_term("mla")
    assert found["cache needed"].after == 4 * 8000 * 32 * (4 * 128 + 64) * 2
    assert found["step FLOPs"].after > found["step FLOPs"].before  # it costs FLOPs in exchange


def test_q8_0_keeps_34_bytes_of_64():
    assert by_term("kv-quantisation")["cache needed"].factor * 64 == 34


def test_without_a_cache_a_step_computes_the_whole_sequence_again():
    found = by_term("kv-cache")
    assert found["cache needed"].before == 0
    assert found["cache needed"].factor is None
    assert found["step FLOPs"].before > 5000 * found["step FLOPs"].after


def test_paging_wastes_less_than_a_block_a_sequence():
    found = by_term("paging")["cache reserved"]
    needed = cache_bytes(LLAMA, 4, 8000).total_bytes
    assert found.before == cache_bytes(LLAMA, 4, 16_384).total_bytes
    assert 0 <= found.after - needed < 4 * 16 * 512 * 1024


def test_continuous_batching_saves_steps_and_changes_no_step():
    found = by_term("continuous-batching")
    assert found["answer steps"].before == 500 + 1000
    assert found["answer steps"].after == 16 + 1000  # the long answer starts when the first place is free
    assert len(found) == 1


def test_a_technique_that_does_not_apply_says_so():
    with pytest.raises(ValueError, match="changes nothing in Llama-3-8B"):
        grouped(deployment(model=catalog.model("llama-3-8b")))
    with pytest.raises(ValueError, match="latent attention keeps no K and V heads"):
        grouped(deployment(model=catalog.model("deepseek-v3")))
    with pytest.raises(ValueError, match="changes nothing in DeepSeek-V3"):
        latent(deployment(model=catalog.model("deepseek-v3")))
    with pytest.raises(ValueError, match="window must be a whole number"):
        windowed(deployment(), 0)
    with pytest.raises(ValueError, match="storage type must be one of"):
        quantised(deployment(), "q9_0")
    with pytest.raises(ValueError, match="fused_elementwise needs a naive implementation"):
        TECHNIQUES["fusion"].apply(deployment(implementation="flash"))


@pytest.mark.parametrize(
    ("model", "heads"), [("gpt2", 6), ("gpt2-xl", 5), ("llama-2-7b", 8), ("falcon-7b", 1)]
)
def test_shared_heads_divide_the_heads_that_there_are(model, heads):
    attention = catalog.model(model).kinds[0].attention
    assert shared_heads(attention) == heads
    if attention.kv_heads > heads:
        after = grouped(deployment(model=catalog.model(model))).model.kinds[0].attention
        assert after.kv_heads == heads


def test_a_second_application_changes_nothing_more():
    for technique in TECHNIQUES.values():
        once = technique.apply(before(technique.id))
        if once.model == LLAMA:
            assert technique.apply(once) == once
        else:
            with pytest.raises(ValueError, match="changes nothing"):
                technique.apply(once)


@given(st.integers(1, 20_000), st.integers(1, 20_000))
def test_a_window_at_least_the_context_changes_no_count(context, window):
    whole = deployment(context=context, max_context=context)
    limited = replace(windowed(whole, window), max_context=context)
    same = TERMS["attention FLOPs"].value(limited) == TERMS["attention FLOPs"].value(whole)
    assert same == (window >= context)


@given(st.sampled_from(sorted(TECHNIQUES)), st.integers(1, 8), st.integers(1, 5000))
def test_no_term_is_ever_negative_or_fractional(technique_id, batch, context):
    for effect in by_term(technique_id, batch=batch, context=context).values():
        assert isinstance(effect.before, int)
        assert isinstance(effect.after, int)
        assert min(effect.before, effect.after) >= 0
