"""Families with mixtures of experts, with recurrent layers, or with layers that only attend elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.cost import layer_attention as attention
from lab.cost import layer_feed_forwards as blocks
from lab.cost import layer_spans as spans
from lab.cost.family import Family
from lab.cost.family_parts import NO_WINDOW, ONE_BIAS, PER_HEAD, SPARSE, UNTIED, UNUSED_WINDOW, llama_like

_DEEPSEEK: Mapping[str, Any] = {
    "qkv_bias": "attention_bias",
    "out_bias": "attention_bias",
    "head_dim": "latent",
    "attention": attention.latent,
    "feed_forwards": blocks.deepseek,
}
MIXED: dict[str, Family] = {
    "mixtral": llama_like(
        "Mixtral", UNTIED | NO_WINDOW, feed_forwards=blocks.mixtral, spans=spans.window_everywhere
    ),
    "qwen2_moe": llama_like(
        "Qwen2Moe",
        UNTIED | UNUSED_WINDOW | SPARSE | {"qkv_bias": True},
        qkv_bias="qkv_bias",
        feed_forwards=blocks.qwen_moe(shared=True),
        spans=spans.by_types(spans.even_windowed),
    ),
    "qwen3_moe": llama_like(
        "Qwen3Moe",
        UNTIED | UNUSED_WINDOW | SPARSE | {"attention_bias": False},
        names={"num_experts": "num_local_experts"},
        qk_norm=True,
        feed_forwards=blocks.qwen_moe(shared=False),
        spans=spans.window_when_used,
        **ONE_BIAS,
    ),
    "gpt_oss": llama_like(
        "GptOss",
        UNTIED | {"attention_bias": True, "head_dim": 64},
        ffn_bias=True,
        router_bias=True,
        sinks=True,
        feed_forwards=blocks.mixtral,
        spans=spans.by_types(spans.every(2)),
        **ONE_BIAS,
    ),
    "glm4_moe": llama_like(
        "Glm4Moe",
        UNTIED | {"attention_bias": False, "use_qk_norm": False},
        qkv_bias="attention_bias",
        qk_norm="use_qk_norm",
        feed_forwards=blocks.deepseek,
    ),
    "deepseek_v2": llama_like("DeepseekV2", UNTIED | PER_HEAD | {"attention_bias": False}, **_DEEPSEEK),
    "deepseek_v3": llama_like("DeepseekV3", UNTIED | {"attention_bias": False}, **_DEEPSEEK),
    "kimi_k2": llama_like("DeepseekV3", UNTIED | {"attention_bias": False}, **_DEEPSEEK),
    "llama4_text": llama_like(
        "Llama4",
        UNTIED
        | {"attention_bias": False, "head_dim": 128, "interleave_moe_layer_step": 1, "moe_layers": None}
        | {"no_rope_layers": None, "no_rope_layer_interval": 4, "attention_chunk_size": 8192},
        feed_forwards=blocks.llama4,
        spans=spans.by_types(spans.chunked_where_rotary, allowed=("full_attention", "chunked_attention")),
        text_of="llama4",
        **ONE_BIAS,
    ),
}

HYBRID: dict[str, Family] = {
    "qwen3_next": llama_like(
        "Qwen3Next",
        UNTIED | SPARSE | {"attention_bias": False, "full_attention_interval": 4, "head_dim": 256},
        qk_norm=True,
        output_gate=True,
        feed_forwards=blocks.qwen_moe(shared=True),
        recurrent=attention.qwen_recurrent,
        spans=spans.by_types(
            spans.every("full_attention_interval", "linear_attention"),
            allowed=("full_attention", "linear_attention"),
        ),
        **ONE_BIAS,
    ),
    "qwen3_5_text": llama_like(
        "Qwen3_5",
        UNTIED | {"attention_bias": False, "full_attention_interval": 4, "head_dim": 256},
        qk_norm=True,
        output_gate=True,
        recurrent=attention.qwen_recurrent,
        spans=spans.by_types(
            spans.every("full_attention_interval", "linear_attention"),
            allowed=("full_attention", "linear_attention"),
        ),
        text_of="qwen3_5",
        **ONE_BIAS,
    ),
    "jamba": llama_like(
        "Jamba",
        UNTIED
        | {"attn_layer_period": 8, "attn_layer_offset": 4, "expert_layer_period": 2, "expert_layer_offset": 1}
        | {"mamba_expand": 2, "mamba_d_conv": 4, "mamba_dt_rank": "auto"}
        | {"mamba_conv_bias": True, "mamba_proj_bias": False},
        feed_forwards=blocks.jamba,
        recurrent=attention.jamba_recurrent,
        spans=spans.attention_every,
    ),
    "bamba": llama_like(
        "Bamba",
        UNTIED
        | {"attention_bias": False, "mlp_bias": False, "attn_layer_indices": None, "mamba_d_head": "auto"}
        | {"mamba_expand": 2, "mamba_d_conv": 4, "mamba_conv_bias": True, "mamba_proj_bias": False},
        ffn_bias="mlp_bias",
        recurrent=attention.bamba_recurrent,
        spans=spans.attention_at("attn_layer_indices"),
        **ONE_BIAS,
    ),
    "lfm2": llama_like(
        "Lfm2",
        {"tie_word_embeddings": True, "conv_bias": False, "conv_L_cache": 3, "full_attn_idxs": None}
        | {"block_auto_adjust_ff_dim": True, "block_multiple_of": 256, "block_ffn_dim_multiplier": 1.0},
        qk_norm=True,
        feed_forwards=blocks.lfm2,
        recurrent=attention.lfm2_recurrent,
        spans=spans.by_types(spans.full_or_conv, allowed=("full_attention", "conv")),
    ),
    "mllama_text_model": llama_like(
        "Mllama",
        UNTIED,
        head_dim="derived",
        cross_attention=attention.mllama_cross,
        cross_layer_parameters=2,
        extra_rows=8,
        spans=spans.cross_at,
        text_of="mllama",
    ),
}
