"""The catalogue against the facts it was made from: every figure, every source, and what is not known."""

import json
from pathlib import Path

import pytest

from lab.cost import catalog
from lab.cost.catalog import DATA, card, hardware, model, models

FACTS = Path(__file__).resolve().parents[1] / "facts"
MODELS = json.loads((FACTS / "models.json").read_text(encoding="utf-8"))
HARDWARE = json.loads((FACTS / "hardware.json").read_text(encoding="utf-8"))
model_facts = pytest.mark.parametrize("fact", MODELS, ids=[fact["id"] for fact in MODELS])
card_facts = pytest.mark.parametrize("fact", HARDWARE, ids=[fact["id"] for fact in HARDWARE])


def test_there_are_at_least_30_models_and_25_cards_in_the_order_of_the_facts():
    assert list(models()) == [fact["id"] for fact in MODELS]
    assert list(hardware()) == [fact["id"] for fact in HARDWARE]
    assert len(models()) >= 30
    assert len(hardware()) >= 25


@model_facts
def test_a_model_has_the_sizes_of_its_fact(fact):
    shape = model(fact["id"])
    assert (shape.hidden, shape.layers, shape.vocab) == (
        fact["hidden_size"],
        fact["num_hidden_layers"],
        fact["vocab_size"],
    )
    assert (shape.heads, shape.kv_heads) == (fact["num_attention_heads"], fact["num_key_value_heads"])
    assert (shape.head_dim, shape.head_dim_v) == (fact["head_dim"], fact["head_dim_v"])
    assert shape.tied_embeddings == fact["tie_word_embeddings"]
    assert shape.max_context == fact["max_position_embeddings"]


@model_facts
def test_a_model_has_the_parameters_of_its_meta_device_instantiation(fact):
    assert model(fact["id"]).parameters == fact["params_meta"]


@model_facts
def test_each_layer_sees_what_the_fact_says(fact):
    shape, pattern = model(fact["id"]), fact["layer_pattern"]
    spans = [shape.kinds[kind].attention.span for kind in shape.order]
    local = [index for index, span in enumerate(spans) if span != "full"]
    if pattern is None:
        assert local == []
        return
    assert len(local) == pattern["windowed_layer_count"]
    full = set(range(shape.layers)) - set(local)
    assert full == set(pattern["full_attention_layers"])
    kind = "chunks of" if pattern["kind"] == "periodic_chunked" else "window"
    assert {spans[index] for index in local} == {f"{kind} {fact['sliding_window']}"}


@model_facts
def test_attention_is_of_the_kind_the_fact_says(fact):
    shape, mla = model(fact["id"]), fact["mla"]
    if fact["attention_kind"] == "hybrid":
        assert len({kind.attention.span for kind in shape.kinds}) == 2
    else:
        assert shape.attention_kind.lower() == fact["attention_kind"]
    assert all(kind.attention.q_bias == fact["qkv_bias"] for kind in shape.kinds)
    if mla:
        latent = shape.kinds[0].attention.latent
        assert (latent.kv_rank, latent.q_rank) == (mla["kv_lora_rank"], mla["q_lora_rank"])
        assert (latent.rope_dim, latent.nope_dim) == (mla["qk_rope_head_dim"], mla["qk_nope_head_dim"])


@model_facts
def test_feed_forward_blocks_are_those_of_the_fact(fact):
    shape, moe = model(fact["id"]), fact["moe"]
    blocks = [shape.kinds[kind].feed_forward for kind in shape.order]
    assert all(block.gated == fact["gated_ffn"] for block in blocks)
    mixtures = [block for block in blocks if block.is_moe]
    plain = [block for block in blocks if not block.is_moe]
    assert all(block.intermediate == fact["intermediate_size"] for block in plain)
    if moe is None:
        assert mixtures == []
        return
    assert len(plain) == moe["first_dense_layers"]
    (mixture,) = set(mixtures)
    assert (mixture.experts, mixture.active_experts) == (moe["num_experts"], moe["num_experts_per_tok"])
    assert mixture.intermediate == moe["moe_intermediate_size"]
    assert mixture.shared_intermediate == moe["num_shared_experts"] * moe["moe_intermediate_size"]


@model_facts
def test_a_model_carries_its_sources_agreement_and_notes(fact):
    shape = model(fact["id"])
    assert shape.sources == tuple(fact["sources"])
    assert shape.agreement == fact["agreement"] >= 1
    assert fact["notes"] in shape.notes
    assert shape.published_parameters == fact["params_published"]
    assert shape.name


def test_the_data_file_keeps_what_the_sources_disagree_about():
    rows = {row["id"]: row for row in json.loads((DATA / "models.json").read_text(encoding="utf-8"))}
    for fact in MODELS:
        for field in ("disagreements", "derived_fields", "agreement_by_field", "params_meta_basis"):
            assert rows[fact["id"]][field] == fact[field]


@card_facts
def test_a_card_has_exactly_the_figures_of_its_fact(fact):
    sheet = card(fact["id"])
    for name in sheet.__dataclass_fields__:
        expected = tuple(fact[name]) if name == "sources" else fact[name]
        assert getattr(sheet, name) == expected, name


@card_facts
def test_a_figure_of_a_card_is_positive_or_unknown_and_has_a_source(fact):
    sheet = card(fact["id"])
    figures = [sheet.memory_bytes, sheet.memory_bandwidth_bytes_per_s, sheet.sm_count, sheet.l2_bytes]
    for figure in [*figures, *sheet.dense_flops.values()]:
        assert figure is None or (isinstance(figure, int) and figure > 0)
    assert set(sheet.dense_flops) == {"fp32", "tf32", "fp16", "bf16", "fp8", "int8"}
    assert sheet.sources
    if None in figures or None in sheet.dense_flops.values():
        assert sheet.notes  # says why


@card_facts
def test_no_rate_is_a_sparse_one_beside_a_dense_one(fact):
    rates = card(fact["id"]).dense_flops
    if rates["fp16"] and rates["fp8"]:  # twice, as printed (L40S: 733 beside 362.05); mixed up it were 1 or 4
        assert 1.9 <= rates["fp8"] / rates["fp16"] <= 2.1
    if rates["bf16"] and rates["fp16"]:
        assert rates["bf16"] == rates["fp16"]


def test_unknown_ids_name_the_ids_there_are():
    with pytest.raises(ValueError, match=r"^model must be one of gpt2, .* got 'gpt-5'\.$"):
        model("gpt-5")
    with pytest.raises(ValueError, match=r"^hardware must be one of h200-sxm, .* got 'abacus'\.$"):
        card("abacus")


def test_the_catalogue_cannot_be_changed_by_its_readers():
    with pytest.raises(TypeError):
        models()["gpt2"] = None
    assert catalog.models() is models()
