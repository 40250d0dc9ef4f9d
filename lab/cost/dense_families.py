"""Families whose layers all have attention and a dense feed-forward block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.cost import layer_attention as attention
from lab.cost import layer_spans as spans
from lab.cost.family import Family
from lab.cost.family_parts import NO_WINDOW, ONE_BIAS, PER_HEAD, TIED, UNTIED, UNUSED_WINDOW, llama_like
from lab.cost.fields import Fields

_GPT2_NAMES = {
    "hidden_size": "n_embd",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}
_GPT2: Mapping[str, Any] = {
    "names": _GPT2_NAMES,
    "renamed": {"intermediate_size": "n_inner"},
    "grouped": False,
    "head_dim": "derived",
    "gated": False,
    "ffn_multiple": 4,
    "learned_positions": True,
    "norm_bias": True,
    "qkv_bias": True,
    "out_bias": True,
    "ffn_bias": True,
}
_GEMMA: dict[str, Any] = TIED | {"attention_bias": False, "head_dim": 256}


def _falcon_norms(fields: Fields) -> int:
    """Falcon norms attention and MLP apart where they follow each other; side by side, as the config says."""
    number, new = fields.nullable_count("num_ln_in_parallel_attn"), fields.flag("new_decoder_architecture")
    if not fields.flag("parallel_attn"):
        return 2
    return 2 if number == 2 or (number is None and new) else 1


def _opt_final_norms(fields: Fields) -> int:
    """OPT ends in a norm where it norms before its blocks, unless an old checkpoint removed it."""
    return int(fields.flag("do_layer_norm_before") and not fields.flag("_remove_final_layer_norm"))


DENSE: dict[str, Family] = {
    "gpt2": Family(
        source="GPT2LMHeadModel, GPT2Config",
        defaults=TIED | {"intermediate_size": None, "add_cross_attention": False},
        cross_attention=attention.cross,
        **_GPT2,
    ),
    "gpt_bigcode": Family(
        source="GPTBigCodeForCausalLM, GPTBigCodeConfig",
        defaults=TIED | {"intermediate_size": None, "multi_query": True},
        attention=attention.bigcode,
        **_GPT2,
    ),
    "opt": Family(
        source="OPTForCausalLM, OPTConfig",
        renamed={"intermediate_size": "ffn_dim"},
        grouped=False,
        head_dim="derived",
        defaults=TIED
        | {"enable_bias": True, "do_layer_norm_before": True, "_remove_final_layer_norm": False}
        | {"layer_norm_elementwise_affine": True},
        gated=False,
        norm_bias=True,
        qkv_bias="enable_bias",
        out_bias="enable_bias",
        ffn_bias="enable_bias",
        attention=attention.opt,
        final_norms=_opt_final_norms,
        learned_positions=True,
        extra_positions=2,
    ),
    "llama": llama_like(
        "Llama",
        UNTIED | PER_HEAD | {"attention_bias": False, "mlp_bias": False},
        ffn_bias="mlp_bias",
        **ONE_BIAS,
    ),
    "mistral": llama_like("Mistral", UNTIED | {"sliding_window": 4096}, spans=spans.window_everywhere),
    "ministral": llama_like(
        "Ministral",
        UNTIED | {"sliding_window": 4096},
        head_dim="required",
        spans=spans.by_types(spans.windowed_if_stated),
    ),
    "ministral3": llama_like(
        "Ministral3", UNTIED | NO_WINDOW | {"head_dim": 128}, spans=spans.window_everywhere
    ),
    "phi3": llama_like("Phi3", UNTIED | PER_HEAD | NO_WINDOW, spans=spans.window_everywhere),
    "qwen2": llama_like(
        "Qwen2", UNTIED | UNUSED_WINDOW, qkv_bias=True, spans=spans.by_types(spans.last_windowed)
    ),
    "qwen3": llama_like(
        "Qwen3",
        UNTIED | UNUSED_WINDOW | {"attention_bias": False, "head_dim": 128},
        qk_norm=True,
        spans=spans.by_types(spans.last_windowed),
        **ONE_BIAS,
    ),
    "gemma": llama_like("Gemma", _GEMMA, **ONE_BIAS),
    "gemma2": llama_like("Gemma2", _GEMMA, layer_norms=4, spans=spans.by_types(spans.every(2)), **ONE_BIAS),
    "gemma3_text": llama_like(
        "Gemma3",
        _GEMMA
        | {"vocab_size": 262_208, "num_attention_heads": 8, "num_key_value_heads": 4}
        | {"max_position_embeddings": 131_072, "sliding_window_pattern": 6},
        layer_norms=4,
        qk_norm=True,
        spans=spans.by_types(spans.every("sliding_window_pattern")),
        text_of="gemma3",
        **ONE_BIAS,
    ),
    "granite": llama_like(
        "Granite",
        UNTIED | PER_HEAD | {"attention_bias": False, "mlp_bias": False},
        ffn_bias="mlp_bias",
        **ONE_BIAS,
    ),
    "olmo2": llama_like(
        "Olmo2",
        UNTIED | PER_HEAD | {"attention_bias": False},
        attention=attention.wide_norms,
        **ONE_BIAS,
    ),
    "olmo3": llama_like(
        "Olmo3",
        UNTIED | PER_HEAD | {"attention_bias": False},
        attention=attention.wide_norms,
        spans=spans.by_types(spans.every(4)),
        **ONE_BIAS,
    ),
    "smollm3": llama_like(
        "SmolLM3",
        TIED | UNUSED_WINDOW | {"attention_bias": False, "mlp_bias": False},
        ffn_bias="mlp_bias",
        spans=spans.by_types(spans.full_unless_used),
        **ONE_BIAS,
    ),
    "cohere": llama_like(
        "Cohere",
        TIED | PER_HEAD | {"attention_bias": False, "use_qk_norm": False},
        layer_norms=1,
        attention=attention.norm_per_head,
        **ONE_BIAS,
    ),
    "cohere2": llama_like(
        "Cohere2",
        TIED | PER_HEAD | {"attention_bias": False, "sliding_window_pattern": 4},
        layer_norms=1,
        spans=spans.by_types(spans.every("sliding_window_pattern")),
        **ONE_BIAS,
    ),
    "starcoder2": llama_like(
        "Starcoder2",
        TIED | NO_WINDOW | {"use_bias": True},
        gated=False,
        norm_bias=True,
        spans=spans.window_everywhere,
        qkv_bias="use_bias",
        out_bias="use_bias",
        ffn_bias="use_bias",
    ),
    "falcon": Family(
        source="FalconForCausalLM, FalconConfig",
        renamed={"intermediate_size": "ffn_hidden_size"},
        grouped=False,
        head_dim="derived",
        defaults=TIED
        | {"new_decoder_architecture": False, "multi_query": True, "parallel_attn": True, "bias": False}
        | {"max_position_embeddings": 2048, "intermediate_size": None}
        | {"num_kv_heads": None, "num_ln_in_parallel_attn": None},
        layer_norms=_falcon_norms,
        norm_bias=True,
        gated=False,
        ffn_multiple=4,
        attention=attention.falcon,
        qkv_bias="bias",
        out_bias="bias",
        ffn_bias="bias",
    ),
    "phi": Family(
        source="PhiForCausalLM, PhiConfig",
        defaults=UNTIED | PER_HEAD | {"qk_layernorm": False},
        layer_norms=1,
        gated=False,
        head_bias=True,
        attention=attention.phi,
        norm_bias=True,
        qkv_bias=True,
        out_bias=True,
        ffn_bias=True,
    ),
    "gpt_neox": Family(
        source="GPTNeoXForCausalLM, GPTNeoXConfig",
        grouped=False,
        head_dim="derived",
        defaults=UNTIED | {"attention_bias": True},
        gated=False,
        norm_bias=True,
        ffn_bias=True,
        **ONE_BIAS,
    ),
}
