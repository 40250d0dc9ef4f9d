"""Small configs of every family the lab reads, with the variants of each, for comparison with transformers."""

from typing import Any

Config = dict[str, Any]

PLAIN: Config = {
    "vocab_size": 97,
    "hidden_size": 32,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
GROUPED = PLAIN | {"intermediate_size": 48, "num_key_value_heads": 2}
GPT2 = {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64, "vocab_size": 97}
WIDE = {"head_dim": 12}  # not hidden / heads = 8
WINDOW = {"sliding_window": 8}
PADDED = {"pad_token_id": 0}
EXPERTS = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 20}
LOCAL_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
ROUTED = {
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 2,
    "moe_intermediate_size": 20,
    "first_k_dense_replace": 2,
    "n_group": 1,
    "topk_group": 1,
}
LATENT = (
    PLAIN
    | ROUTED
    | {"intermediate_size": 48, "num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 14}
    | {"qk_rope_head_dim": 8, "qk_nope_head_dim": 12, "v_head_dim": 10}
)
DELTA_NET = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 10,
    "linear_conv_kernel_dim": 4,
}
JAMBA = GROUPED | {
    "num_hidden_layers": 8,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "mamba_d_state": 4,
    "attn_layer_period": 4,
    "attn_layer_offset": 2,
}
BAMBA = GROUPED | {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_n_groups": 2,
    "mamba_d_state": 16,
    "attn_layer_indices": [1, 4],
}
LLAMA4 = GROUPED | LOCAL_EXPERTS | WIDE | {"intermediate_size_mlp": 64, "attention_chunk_size": 16}
BIASED = {"attention_bias": True}

VARIANTS: dict[str, list[Config]] = {
    "gpt2": [
        GPT2,
        GPT2 | {"n_inner": 40, "add_cross_attention": True},
        GPT2 | {"tie_word_embeddings": False},
    ],
    "gpt_bigcode": [GPT2, GPT2 | {"multi_query": False}],
    "opt": [
        PLAIN | {"ffn_dim": 40, "word_embed_proj_dim": 32},
        PLAIN | {"ffn_dim": 40, "word_embed_proj_dim": 32, "enable_bias": False},
        PLAIN | {"ffn_dim": 40, "word_embed_proj_dim": 32, "do_layer_norm_before": False},
    ],
    "llama": [
        GROUPED,
        PLAIN | {"intermediate_size": 48},
        GROUPED | WIDE | BIASED | {"mlp_bias": True, "tie_word_embeddings": True},
    ],
    "mistral": [GROUPED | WINDOW | WIDE, GROUPED | {"sliding_window": None}],
    "ministral": [GROUPED | WIDE | WINDOW, GROUPED | WIDE | {"sliding_window": None}],
    "ministral3": [GROUPED | WIDE | {"sliding_window": None}],
    "mixtral": [GROUPED | LOCAL_EXPERTS, GROUPED | LOCAL_EXPERTS | WIDE | WINDOW],
    "phi": [GROUPED, GROUPED | {"qk_layernorm": True}, GROUPED | WIDE],
    "phi3": [GROUPED | WINDOW | PADDED, GROUPED | WIDE | PADDED],
    "qwen2": [GROUPED, GROUPED | WIDE | WINDOW | {"use_sliding_window": True, "max_window_layers": 2}],
    "qwen2_moe": [
        GROUPED | EXPERTS | {"shared_expert_intermediate_size": 24},
        GROUPED
        | EXPERTS
        | WINDOW
        | {"shared_expert_intermediate_size": 24, "decoder_sparse_step": 2, "qkv_bias": False}
        | {"use_sliding_window": True, "max_window_layers": 4},
    ],
    "qwen3": [GROUPED | WIDE, GROUPED, GROUPED | WIDE | BIASED | {"tie_word_embeddings": True}],
    "qwen3_moe": [GROUPED | EXPERTS | WIDE, GROUPED | EXPERTS | WIDE | BIASED | {"mlp_only_layers": [1, 3]}],
    "qwen3_next": [
        GROUPED | EXPERTS | WIDE | DELTA_NET | {"shared_expert_intermediate_size": 24},
        GROUPED
        | EXPERTS
        | WIDE
        | DELTA_NET
        | {"shared_expert_intermediate_size": 24, "mlp_only_layers": [0], "full_attention_interval": 3},
    ],
    "qwen3_5_text": [GROUPED | WIDE | DELTA_NET],
    "gemma": [GROUPED | WIDE, GROUPED | BIASED],
    "gemma2": [GROUPED | WIDE | WINDOW, GROUPED | WINDOW | BIASED],
    "gemma3_text": [GROUPED | WIDE | WINDOW, GROUPED | WINDOW | {"sliding_window_pattern": 2}],
    "granite": [GROUPED, GROUPED | WIDE | BIASED | {"mlp_bias": True}],
    "olmo2": [GROUPED | PADDED, GROUPED | WIDE | PADDED | BIASED],
    "olmo3": [GROUPED | WINDOW | PADDED],
    "smollm3": [GROUPED | WIDE | PADDED],
    "cohere": [GROUPED | {"use_qk_norm": True}, GROUPED | WIDE],
    "cohere2": [GROUPED | WINDOW, GROUPED | WINDOW | {"sliding_window_pattern": 3}],
    "starcoder2": [GROUPED | WINDOW, GROUPED | WIDE | {"use_bias": False}],
    "falcon": [
        PLAIN,
        PLAIN | {"new_decoder_architecture": True, "num_kv_heads": 2, "bias": True},
        PLAIN | {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
        PLAIN | {"parallel_attn": False, "multi_query": False, "alibi": True, "ffn_hidden_size": 40},
    ],
    "gpt_neox": [
        PLAIN | {"intermediate_size": 40},
        PLAIN | {"intermediate_size": 40, "attention_bias": False},
    ],
    "gpt_oss": [
        GROUPED | LOCAL_EXPERTS | WINDOW | WIDE,
        GROUPED | LOCAL_EXPERTS | WINDOW | {"attention_bias": False},
    ],
    "glm4_moe": [GROUPED | ROUTED | WIDE, GROUPED | ROUTED | WIDE | BIASED | {"use_qk_norm": True}],
    "deepseek_v2": [LATENT, LATENT | BIASED | {"q_lora_rank": None, "n_shared_experts": 1}],
    "deepseek_v3": [LATENT, LATENT | BIASED | {"q_lora_rank": None, "first_k_dense_replace": 0}],
    "llama4_text": [
        LLAMA4,
        LLAMA4 | BIASED | {"interleave_moe_layer_step": 2, "no_rope_layers": [1, 0, 1, 1, 0, 1]},
    ],
    "jamba": [
        JAMBA,
        JAMBA | {"mamba_proj_bias": True, "mamba_conv_bias": False},
        JAMBA | {"num_experts": 1, "num_experts_per_tok": 1, "mamba_dt_rank": 5},
    ],
    "bamba": [BAMBA, BAMBA | BIASED | {"mamba_proj_bias": True, "mlp_bias": True}],
    "lfm2": [
        GROUPED | {"full_attn_idxs": [2, 4]},
        GROUPED | {"full_attn_idxs": [2, 4], "conv_bias": True, "block_auto_adjust_ff_dim": False},
    ],
    "mllama_text_model": [GROUPED | PADDED | {"cross_attention_layers": [1, 3]}],
}

CASES: list[tuple[str, Config]] = [
    (model_type, config) for model_type, configs in VARIANTS.items() for config in configs
]
IDS = [f"{model_type}-{number}" for model_type, configs in VARIANTS.items() for number in range(len(configs))]
