"""Tiny transformers models beside their shapes, for tests that compare counts with what really runs."""

from collections.abc import Callable
from typing import Any

import torch
import transformers

from lab.cost.layers import Attention, FeedForward, Latent
from lab.cost.shapes import LayerKind, ModelShape

HIDDEN, LAYERS, VOCAB = 64, 3, 101
SIZES: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": 96,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "vocab_size": VOCAB,
    "max_position_embeddings": 256,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}


def shape(kinds: list[LayerKind], order: tuple[int, ...], *, tied: bool = False) -> ModelShape:
    return ModelShape(
        id="tiny",
        name="Tiny",
        family="llama",
        hidden=HIDDEN,
        vocab=VOCAB,
        kinds=tuple(kinds),
        order=order,
        tied_embeddings=tied,
        final_norm_parameters=HIDDEN,
    )


def attention(kv_heads: int = 2, **changes: Any) -> Attention:
    return Attention(
        hidden=HIDDEN, heads=4, kv_heads=kv_heads, **{"head_dim": 16, "head_dim_v": 16, **changes}
    )


def layer(block: Attention, feed_forward: FeedForward) -> LayerKind:
    return LayerKind(attention=block, feed_forward=feed_forward, norm_parameters=2 * HIDDEN)


def dense(width: int = 96, *, gated: bool = True) -> FeedForward:
    return FeedForward(hidden=HIDDEN, intermediate=width, gated=gated)


def llama(kv_heads: int) -> tuple[ModelShape, torch.nn.Module]:
    config = transformers.LlamaConfig(**SIZES, num_key_value_heads=kv_heads)
    return shape([layer(attention(kv_heads), dense())], (0,) * LAYERS), _eager(
        transformers.LlamaForCausalLM, config
    )


def gpt2() -> tuple[ModelShape, torch.nn.Module]:
    config = transformers.GPT2Config(
        n_embd=HIDDEN,
        n_layer=LAYERS,
        n_head=4,
        vocab_size=VOCAB,
        n_positions=256,
        bos_token_id=0,
        eos_token_id=0,
    )
    kind = layer(attention(4), dense(4 * HIDDEN, gated=False))
    return shape([kind], (0,) * LAYERS, tied=True), _eager(transformers.GPT2LMHeadModel, config)


def wide_heads() -> tuple[ModelShape, torch.nn.Module]:
    """Qwen3: a head_dim of its own, not hidden / heads."""
    config = transformers.Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=24)
    kind = layer(attention(head_dim=24, head_dim_v=24), dense())
    return shape([kind], (0,) * LAYERS), _eager(transformers.Qwen3ForCausalLM, config)


def mixture() -> tuple[ModelShape, torch.nn.Module]:
    config = transformers.MixtralConfig(
        **SIZES, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2
    )
    experts = FeedForward(hidden=HIDDEN, intermediate=96, gated=True, experts=4, active_experts=2)
    return shape([layer(attention(), experts)], (0,) * LAYERS), _eager(
        transformers.MixtralForCausalLM, config
    )


def latent() -> tuple[ModelShape, torch.nn.Module]:
    """DeepSeek-V3: MLA, one dense layer, then experts with a shared one."""
    config = transformers.DeepseekV3Config(
        **SIZES,
        num_key_value_heads=4,
        n_routed_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        first_k_dense_replace=1,
        kv_lora_rank=16,
        q_lora_rank=24,
        qk_rope_head_dim=8,
        qk_nope_head_dim=16,
        v_head_dim=12,
        n_group=2,
        topk_group=1,
        n_shared_experts=1,
    )
    compressed = Latent(kv_rank=16, rope_dim=8, nope_dim=16, q_rank=24)
    block = attention(4, head_dim=24, head_dim_v=12, latent=compressed)
    experts = FeedForward(
        hidden=HIDDEN, intermediate=32, gated=True, experts=8, active_experts=2, shared_intermediate=32
    )
    kinds = [layer(block, dense()), layer(block, experts)]
    return shape(kinds, (0, 1, 1)), _eager(transformers.DeepseekV3ForCausalLM, config)


def _eager(model_class: type, config: Any) -> torch.nn.Module:
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    torch.manual_seed(0)
    return model_class(config).eval()


MODELS: dict[str, Callable[[], tuple[ModelShape, torch.nn.Module]]] = {
    "MHA": lambda: llama(4),
    "GQA": lambda: llama(2),
    "MQA": lambda: llama(1),
    "GPT-2": gpt2,
    "wide heads": wide_heads,
    "mixture": mixture,
    "MLA": latent,
}
