"""How each family of models builds its layers from a record of sizes: biases, norms, windows, experts.

A record names sizes as lab/data/models.json does. What a family's modelling code fixes and no config states
(how many norms, which projections have biases) stands here, with the class of transformers 5.24 it was read
from; the counts are compared with those classes on the meta device in tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lab.cost.layers import Attention, FeedForward, Latent
from lab.cost.shapes import LayerKind, ModelShape

Sizes = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Family:
    """What a family's code fixes. Norms are counted in vectors of the hidden width."""

    source: str  # the modelling class in transformers
    layer_norms: int = 2
    final_norms: int = 1
    norm_bias: bool = False  # LayerNorm has a bias, RMSNorm has none
    qkv_bias: bool = False
    out_bias: bool = False
    ffn_bias: bool = False
    router_bias: bool = False
    qk_norms: int = 0  # norms of head_dim weights, on Q and K
    sinks: bool = False
    learned_positions: bool = False
    extra_positions: int = 0  # rows of the position table beyond max_position_embeddings


_LLAMA = Family(source="LlamaForCausalLM")
_GPT2_LIKE: dict[str, Any] = dict.fromkeys(
    ("norm_bias", "qkv_bias", "out_bias", "ffn_bias", "learned_positions"), True
)

FAMILIES: dict[str, Family] = {
    "gpt2": Family(source="GPT2LMHeadModel", **_GPT2_LIKE),
    "starcoder": Family(source="GPTBigCodeForCausalLM", **_GPT2_LIKE),
    "opt": Family(source="OPTForCausalLM", extra_positions=2, **_GPT2_LIKE),
    "llama": _LLAMA,
    "mistral": Family(source="MistralForCausalLM"),
    "mixtral": Family(source="MixtralForCausalLM"),
    "phi3": Family(source="Phi3ForCausalLM"),
    "qwen2": Family(source="Qwen2ForCausalLM", qkv_bias=True),
    "qwen3": Family(source="Qwen3ForCausalLM", qk_norms=2),
    "qwen3-moe": Family(source="Qwen3MoeForCausalLM", qk_norms=2),
    "gemma2": Family(source="Gemma2ForCausalLM", layer_norms=4),
    "gemma3": Family(source="Gemma3ForCausalLM", layer_norms=4, qk_norms=2),
    "falcon": Family(source="FalconForCausalLM", layer_norms=1, norm_bias=True),
    "gpt-oss": Family(
        source="GptOssForCausalLM", qkv_bias=True, out_bias=True, ffn_bias=True, router_bias=True, sinks=True
    ),
    "deepseek-v2": Family(source="DeepseekV2ForCausalLM"),
    "deepseek-v3": Family(source="DeepseekV3ForCausalLM"),
    "kimi-k2": Family(source="DeepseekV3ForCausalLM"),
    "llama4": Family(source="Llama4ForCausalLM"),
    "starcoder2": Family(
        source="Starcoder2ForCausalLM", norm_bias=True, qkv_bias=True, out_bias=True, ffn_bias=True
    ),
}


def build(sizes: Sizes) -> ModelShape:
    """Build a model's shape from a record of sizes.

    Args:
        sizes: a row of lab/data/models.json, or the same fields from elsewhere.

    Returns:
        The shape.

    Raises:
        ValueError: an unknown family, or sizes that cannot be.
    """
    if sizes["family"] not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        raise ValueError(f"family must be one of {known}, got {sizes['family']!r}.")
    family = FAMILIES[sizes["family"]]
    hidden = sizes["hidden_size"]
    norm = hidden * (2 if family.norm_bias else 1)
    kinds: list[LayerKind] = []
    order = []
    for index in range(sizes["num_hidden_layers"]):
        kind = LayerKind(
            attention=_attention(family, sizes, index),
            feed_forward=_feed_forward(family, sizes, index),
            norm_parameters=family.layer_norms * norm,
        )
        if kind not in kinds:
            kinds.append(kind)
        order.append(kinds.index(kind))
    positions = (sizes["max_position_embeddings"] or 0) + family.extra_positions
    return ModelShape(
        id=sizes["id"],
        name=sizes["name"],
        family=sizes["family"],
        hidden=hidden,
        vocab=sizes["vocab_size"],
        kinds=tuple(kinds),
        order=tuple(order),
        tied_embeddings=sizes["tie_word_embeddings"],
        final_norm_parameters=family.final_norms * norm,
        position_parameters=positions * hidden if family.learned_positions else 0,
        max_context=sizes["max_position_embeddings"],
        sources=tuple(sizes.get("sources", ())),
        notes=sizes.get("notes") or "",
        published_parameters=sizes.get("params_published"),
    )


def _attention(family: Family, sizes: Sizes, index: int) -> Attention:
    pattern = sizes.get("layer_pattern") or {}
    local = bool(pattern) and index not in pattern["full_attention_layers"]
    chunked = pattern.get("kind") == "periodic_chunked"
    mla = sizes.get("mla")
    latent = None
    norms = family.qk_norms * sizes["head_dim"]
    if mla:
        latent = Latent(
            kv_rank=mla["kv_lora_rank"],
            rope_dim=mla["qk_rope_head_dim"],
            nope_dim=mla["qk_nope_head_dim"],
            q_rank=mla["q_lora_rank"],
        )
        norms = latent.kv_rank + (latent.q_rank or 0)  # an RMSNorm on each compressed vector
    return Attention(
        hidden=sizes["hidden_size"],
        heads=sizes["num_attention_heads"],
        kv_heads=sizes["num_key_value_heads"],
        head_dim=sizes["head_dim"],
        head_dim_v=sizes["head_dim_v"],
        window=sizes["sliding_window"] if local and not chunked else None,
        chunk=pattern["chunk"] if local and chunked else None,
        latent=latent,
        q_bias=family.qkv_bias,
        k_bias=family.qkv_bias,
        v_bias=family.qkv_bias,
        out_bias=family.out_bias,
        norm_parameters=norms,
        sinks=family.sinks,
    )


def _feed_forward(family: Family, sizes: Sizes, index: int) -> FeedForward:
    moe = sizes.get("moe")
    shared: dict[str, Any] = {
        "hidden": sizes["hidden_size"],
        "gated": sizes["gated_ffn"],
        "in_bias": family.ffn_bias,
        "out_bias": family.ffn_bias,
    }
    if not moe or index < moe["first_dense_layers"]:
        return FeedForward(intermediate=sizes["intermediate_size"], **shared)
    width = moe["moe_intermediate_size"]
    return FeedForward(
        intermediate=width,
        experts=moe["num_experts"],
        active_experts=moe["num_experts_per_tok"],
        shared_intermediate=moe["num_shared_experts"] * width,
        router_bias=family.router_bias,
        **shared,
    )
