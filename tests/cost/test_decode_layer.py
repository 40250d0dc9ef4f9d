"""One layer of a decode step reads what the cache holds: summed over layers, the model's cache."""

import pytest

from lab.cost import catalog
from lab.cost.budget import budget
from lab.cost.cache import cache_bytes
from lab.cost.decode_layer import decode_operation, layer_cache_bytes, widest_attention
from lab.cost.shapes import decode


@pytest.mark.parametrize("name", ["gpt2", "deepseek-v3", "gemma-3-27b"])
def test_layers_add_up_to_the_models_cache(name: str) -> None:
    model = catalog.model(name)
    groups = [(kind.attention, layers) for kind, layers in model.layer_groups if kind.attention]
    kept = sum(layers * layer_cache_bytes(one, 3, 5000, "bf16") for one, layers in groups)
    assert kept == cache_bytes(model, 3, 5000, "bf16").total_bytes


@pytest.mark.parametrize("name", ["gpt2", "llama-3-8b", "deepseek-v3"])
def test_a_step_computes_the_budgets_core_and_reads_the_cache_once(name: str) -> None:
    model, context = catalog.model(name), 1024
    attention, layers = widest_attention(model)
    assert layers == model.layers
    step = decode_operation(attention, batch=2, context=context, dtype="bf16")
    counted = budget(model, decode(2, context, "bf16"))
    if attention.latent is None:
        queries = 2 * 2 * attention.heads * attention.head_dim
    else:
        queries = 2 * 2 * attention.heads * (512 + 64)
    assert step.flops * layers == counted.core_flops
    assert step.read_bytes - queries == layer_cache_bytes(attention, 2, context, "bf16")


def test_a_latent_is_read_once_for_all_heads() -> None:
    attention, _ = widest_attention(catalog.model("deepseek-v3"))
    step = decode_operation(attention, batch=1, context=4096, dtype="bf16")
    assert 4096 * (512 + 64) * 2 < step.read_bytes < 1.1 * 4096 * (512 + 64) * 2
    assert step.flops == 2 * 128 * 4096 * (576 + 512)


def test_gemmas_window_layers_are_fewer_tokens() -> None:
    model = catalog.model("gemma-3-27b")
    attention, layers = widest_attention(model)
    assert (attention.span, layers) == ("full", 10)
