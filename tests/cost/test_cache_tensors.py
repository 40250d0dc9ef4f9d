"""The cache of lab.cost against the tensors of real transformers caches, filled by tiny models."""

import pytest

from lab.cost.cache import layers_of
from lab.cost.layers import Attention, Latent

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SIZES = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 6}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
BATCH, CONTEXT = 3, 20


def configs():
    window = {"sliding_window": 8}
    yield transformers.GPT2Config(vocab_size=64, n_embd=32, n_layer=3, n_head=4, n_positions=64)
    yield transformers.LlamaConfig(**SIZES, **HEADS)
    yield transformers.LlamaConfig(**SIZES, num_attention_heads=4, num_key_value_heads=1)
    yield transformers.Qwen3Config(**SIZES, **HEADS)
    yield transformers.MistralConfig(**SIZES, **HEADS, **window)
    yield transformers.Gemma2Config(**SIZES, **HEADS, **window)
    yield transformers.Gemma3TextConfig(**SIZES, **HEADS, **window)
    yield transformers.GptOssConfig(**SIZES, **HEADS, **window, num_local_experts=2, num_experts_per_tok=1)
    yield transformers.DeepseekV3Config(
        **SIZES,
        num_attention_heads=4,
        num_key_value_heads=4,
        moe_intermediate_size=16,
        kv_lora_rank=16,
        q_lora_rank=8,
        qk_rope_head_dim=8,
        qk_nope_head_dim=16,
        v_head_dim=12,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=1,
        topk_group=1,
        first_k_dense_replace=1,
    )


CONFIGS = list(configs())


def attention(config, layer):
    """The attention of one layer, read from the config's own fields."""
    heads, kv_heads = config.num_attention_heads, getattr(config, "num_key_value_heads", None)
    types = getattr(config, "layer_types", None)
    window = getattr(config, "sliding_window", None)
    local = types[layer] == "sliding_attention" if types else window is not None
    common = {"hidden": config.hidden_size, "heads": heads, "window": window if local else None}
    if hasattr(config, "kv_lora_rank"):
        parts = Latent(
            kv_rank=config.kv_lora_rank, rope_dim=config.qk_rope_head_dim, nope_dim=config.qk_nope_head_dim
        )
        width = parts.nope_dim + parts.rope_dim
        return Attention(**common, kv_heads=heads, head_dim=width, head_dim_v=config.v_head_dim, latent=parts)
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    return Attention(**common, kv_heads=kv_heads or heads, head_dim=width, head_dim_v=width)


def filled_cache(config, dtype):
    """A cache of CONTEXT tokens a sequence, allocated for exactly that many (StaticCache keeps whole windows)."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).to(dtype).eval()
    cache = transformers.StaticCache(config=config, max_cache_len=CONTEXT)
    with torch.no_grad():
        model(torch.randint(0, 64, (BATCH, CONTEXT)), cache=cache, use_cache=True)
    return cache


def stored(tensor):
    return tensor.numel() * tensor.element_size()


@pytest.mark.parametrize("config", CONFIGS, ids=[f"{c.model_type}-{i}" for i, c in enumerate(CONFIGS)])
@pytest.mark.parametrize(("dtype", "name"), [(torch.float32, "fp32"), (torch.bfloat16, "bf16")])
def test_each_layer_holds_the_bytes_of_its_tensors(config, dtype, name):
    cache = filled_cache(config, dtype)
    assert len(cache.layers) == config.num_hidden_layers
    for number, layer in enumerate(cache.layers):
        found = stored(layer.keys) + stored(layer.values)
        assert found == layers_of(attention(config, number), 1, name).bytes(BATCH, CONTEXT), number


@pytest.mark.parametrize("config", CONFIGS, ids=[f"{c.model_type}-{i}" for i, c in enumerate(CONFIGS)])
def test_keys_and_values_apart_have_the_widths_of_their_tensors(config):
    layer = filled_cache(config, torch.float32).layers[0]
    kind = layers_of(attention(config, 0), 1, "fp32")
    tokens = BATCH * kind.tokens(CONTEXT)
    if attention(config, 0).latent is None:
        assert (stored(layer.keys), stored(layer.values)) == (
            tokens * kind.k_token_bytes,
            tokens * kind.v_token_bytes,
        )
    else:  # transformers keeps the latent vector and the rotary key as two tensors
        assert stored(layer.keys) + stored(layer.values) == tokens * kind.k_token_bytes
