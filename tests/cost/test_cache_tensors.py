"""The cache of lab.cost against the tensors of real transformers caches, filled by tiny models of each kind."""

import pytest

from lab.cost.cache import cache_bytes, layers_of, states_of
from lab.cost.configs import from_config

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SIZES = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 8}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
WINDOW = {"sliding_window": 8}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
LATENT = {
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "kv_lora_rank": 16,
    "q_lora_rank": 8,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 12,
}
DELTA_NET = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "shared_expert_intermediate_size": 16,
}
BATCH, CONTEXT = 3, 20

CONFIGS = {
    "GPT-2": lambda: transformers.GPT2Config(
        vocab_size=64, n_embd=32, n_layer=3, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=1
    ),
    "Llama, grouped": lambda: transformers.LlamaConfig(**SIZES, **HEADS),
    "Llama, multi-query": lambda: transformers.LlamaConfig(
        **SIZES, num_attention_heads=4, num_key_value_heads=1
    ),
    "Qwen3": lambda: transformers.Qwen3Config(**SIZES, **HEADS),
    "Mistral, windows": lambda: transformers.MistralConfig(**SIZES, **HEADS, **WINDOW),
    "Gemma-2, windows": lambda: transformers.Gemma2Config(**SIZES, **HEADS, **WINDOW),
    "Gemma-3, windows": lambda: transformers.Gemma3TextConfig(**SIZES, **HEADS, **WINDOW),
    "gpt-oss, windows": lambda: transformers.GptOssConfig(
        **SIZES, **HEADS, **WINDOW, num_local_experts=2, num_experts_per_tok=1
    ),
    "Llama-4, chunks": lambda: transformers.Llama4TextConfig(
        **SIZES, **HEADS, attention_chunk_size=8, num_local_experts=2, intermediate_size_mlp=32
    ),
    "DeepSeek-V3, latent": lambda: transformers.DeepseekV3Config(
        **SIZES,
        **LATENT,
        moe_intermediate_size=16,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=1,
        topk_group=1,
        first_k_dense_replace=1,
    ),
    "Qwen3-Next, delta net": lambda: transformers.Qwen3NextConfig(**SIZES, **HEADS, **EXPERTS, **DELTA_NET),
}


def filled_cache(config, dtype=torch.float32):
    """A cache of CONTEXT tokens a sequence, allocated for exactly those (StaticCache keeps whole windows)."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).to(dtype).eval()
    cache = transformers.StaticCache(config=config, max_cache_len=CONTEXT)
    with torch.no_grad():
        model(torch.randint(0, 64, (BATCH, CONTEXT)), cache=cache, use_cache=True)
    return cache


def stored(tensor):
    return tensor.numel() * tensor.element_size()


@pytest.mark.parametrize("make_config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize(("dtype", "name"), [(torch.float32, "fp32"), (torch.bfloat16, "bf16")])
def test_each_layer_holds_the_bytes_of_its_tensors(make_config, dtype, name):
    config = make_config()
    shape, cache = from_config(config.to_dict()), filled_cache(config, dtype)
    kinds = [shape.kinds[number] for number in shape.order]
    assert len(cache.layers) == len(kinds)
    total = 0
    for kind, layer in zip(kinds, cache.layers, strict=True):
        if kind.attention is not None:
            found = stored(layer.keys) + stored(layer.values)
            assert found == layers_of(kind.attention, 1, name).bytes(BATCH, CONTEXT)
            total += found
    assert total == cache_bytes(shape, BATCH, CONTEXT, name).kv_bytes


def test_k_and_v_apart_have_the_widths_of_their_tensors():
    config = CONFIGS["Llama, grouped"]()
    layer = filled_cache(config).layers[0]
    kind = layers_of(from_config(config.to_dict()).kinds[0].attention, 1, "fp32")
    assert stored(layer.keys) == BATCH * CONTEXT * kind.k_token_bytes
    assert stored(layer.values) == BATCH * CONTEXT * kind.v_token_bytes


def test_a_latent_layer_keeps_the_latent_vector_and_one_rotary_key():
    config = CONFIGS["DeepSeek-V3, latent"]()
    layer = filled_cache(config).layers[0]
    assert sorted(stored(tensor) for tensor in (layer.keys, layer.values)) == [
        BATCH * CONTEXT * width * 4 for width in (8, 16)
    ]


def test_a_recurrent_layer_keeps_its_state_and_the_convolutions_earlier_inputs():
    config = CONFIGS["Qwen3-Next, delta net"]()
    shape, cache = from_config(config.to_dict()), filled_cache(config)
    number = next(place for place, kind in enumerate(shape.order) if shape.kinds[kind].recurrent is not None)
    mixer, layer = shape.kinds[shape.order[number]].recurrent, cache.layers[number]
    state, inputs = layer.recurrent_states[0], layer.conv_states[0]
    needed = inputs[..., 1:]  # transformers keeps the newest input too, which the next token does not need
    assert states_of(mixer, 1, "fp32", "fp32").bytes(BATCH, 1) == stored(state) + stored(needed)
    assert cache_bytes(shape, BATCH, CONTEXT, "fp32").state_bytes == 6 * (stored(state) + stored(needed))
