"""The attention of a layer, and the mixers that stand in for it, read from a config."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from lab.cost.family import Family, Sizes
from lab.cost.fields import Fields
from lab.cost.layers import Attention, Latent, Recurrent
from lab.cost.recurrent import gated_delta_net, mamba, mamba2, short_convolution


def plain(fields: Fields, sizes: Sizes, family: Family) -> Attention:
    """Read attention with Q, K, V and output projections: MHA, GQA or MQA."""
    bias = fields.option(family.qkv_bias)
    return Attention(
        hidden=sizes.hidden,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        head_dim_v=sizes.head_dim,
        q_bias=bias,
        k_bias=bias,
        v_bias=bias,
        out_bias=fields.option(family.out_bias),
        output_gate=family.output_gate,
        norm_parameters=2 * sizes.head_dim if fields.option(family.qk_norm) else 0,
        sinks=family.sinks,
    )


def latent(fields: Fields, sizes: Sizes, family: Family) -> Attention:
    """Read DeepSeek's multi-head latent attention; a norm follows each compressed vector."""
    if sizes.kv_heads != sizes.heads:
        raise fields.refuse(
            "num_key_value_heads",
            f"latent attention expands K and V for every head, {sizes.kv_heads} contradicts {sizes.heads}",
        )
    shape = Latent(
        kv_rank=fields.count("kv_lora_rank"),
        rope_dim=fields.count("qk_rope_head_dim"),
        nope_dim=fields.count("qk_nope_head_dim"),
        q_rank=fields.nullable_count("q_lora_rank"),
    )
    bias = fields.option(family.qkv_bias)
    return Attention(
        hidden=sizes.hidden,
        heads=sizes.heads,
        kv_heads=sizes.heads,
        head_dim=shape.nope_dim + shape.rope_dim,
        head_dim_v=fields.count("v_head_dim"),
        latent=shape,
        q_bias=bias,
        k_bias=bias,
        out_bias=fields.option(family.out_bias),
        norm_parameters=shape.kv_rank + (shape.q_rank or 0),
    )


def wide_norms(fields: Fields, sizes: Sizes, family: Family) -> Attention:
    """Read OLMo 2's attention: the norms on Q and K span all heads."""
    shape = plain(fields, sizes, family)
    return replace(shape, norm_parameters=sizes.head_dim * (sizes.heads + sizes.kv_heads))


def norm_per_head(fields: Fields, sizes: Sizes, family: Family) -> Attention:
    """Read attention whose norms on Q and K have weights of their own for every head."""
    shape = plain(fields, sizes, family)
    if not fields.flag("use_qk_norm"):
        return shape
    return replace(shape, norm_parameters=sizes.head_dim * (sizes.heads + sizes.kv_heads))


def phi(fields: Fields, sizes: Sizes, family: Family) -> Attention:
    """Read Phi's attention: the optional norms on Q and K are LayerNorms of hidden / heads, with biases."""
    shape, width = plain(fields, sizes, family), sizes.hidden // sizes.heads
    return replace(shape, norm_parameters=4 * width if fields.flag("qk_layernorm") else 0)


def falcon(fields: Fields, sizes: Sizes, family: Family) -> Attention:
    """Read Falcon's attention: grouped in the new architecture, else multi-query or one K and V per head."""
    multi_query, kv_heads = fields.flag("multi_query"), fields.nullable_count("num_kv_heads") or sizes.heads
    if fields.flag("new_decoder_architecture"):
        if sizes.heads % kv_heads:
            raise fields.refuse(
                "num_kv_heads", f"must divide num_attention_heads = {sizes.heads}, got {kv_heads}"
            )
    else:
        kv_heads = 1 if multi_query else sizes.heads
    return plain(fields, sizes._replace(kv_heads=kv_heads), family)


def opt(fields: Fields, sizes: Sizes, family: Family) -> Attention:
    """Read OPT's attention, where nothing else of the config is unusual."""
    if fields.optional_count("word_embed_proj_dim") not in (None, sizes.hidden):
        raise fields.refuse("word_embed_proj_dim", f"only hidden_size = {sizes.hidden} is modelled")
    if not fields.flag("layer_norm_elementwise_affine"):
        raise fields.refuse("layer_norm_elementwise_affine", "only true is modelled")
    return plain(fields, sizes, family)


def bigcode(fields: Fields, sizes: Sizes, family: Family) -> Attention:
    """Read GPT-BigCode's attention: one K and V for all heads, if multi_query says so."""
    kv_heads = 1 if fields.flag("multi_query") else sizes.heads
    return plain(fields, sizes._replace(kv_heads=kv_heads), family)


def cross(fields: Fields, sizes: Sizes, family: Family) -> Attention:
    """Read cross-attention over states as wide as the model."""
    return replace(plain(fields, sizes, family), source_hidden=sizes.hidden)


def mllama_cross(fields: Fields, sizes: Sizes, family: Family) -> Attention:
    """Read Mllama's cross-attention over projected image states, with norms on Q and K."""
    return replace(cross(fields, sizes, family), norm_parameters=2 * sizes.head_dim)


def qwen_recurrent(fields: Fields, sizes: Sizes) -> Recurrent:
    """Read Qwen3-Next's gated delta net."""
    key_heads, value_heads = fields.count("linear_num_key_heads"), fields.count("linear_num_value_heads")
    if value_heads % key_heads:
        raise fields.refuse(
            "linear_num_value_heads",
            f"must be a multiple of linear_num_key_heads = {key_heads}, got {value_heads}",
        )
    return gated_delta_net(
        sizes.hidden,
        key_heads=key_heads,
        value_heads=value_heads,
        key_dim=fields.count("linear_key_head_dim"),
        value_dim=fields.count("linear_value_head_dim"),
        conv_kernel=fields.count("linear_conv_kernel_dim"),
    )


def jamba_recurrent(fields: Fields, sizes: Sizes) -> Recurrent:
    """Read Jamba's state space."""
    rank = fields.raw("mamba_dt_rank")
    return mamba(
        sizes.hidden,
        inner=fields.count("mamba_expand") * sizes.hidden,
        state=fields.count("mamba_d_state"),
        rank=ceil(sizes.hidden / 16) if rank == "auto" else fields.count("mamba_dt_rank"),
        conv_kernel=fields.count("mamba_d_conv"),
        conv_bias=fields.flag("mamba_conv_bias"),
        bias=fields.flag("mamba_proj_bias"),
    )


def bamba_recurrent(fields: Fields, sizes: Sizes) -> Recurrent:
    """Read Bamba's state space."""
    heads, inner = fields.count("mamba_n_heads"), fields.count("mamba_expand") * sizes.hidden
    width = fields.raw("mamba_d_head")
    if inner % heads or (width != "auto" and fields.count("mamba_d_head") * heads != inner):
        raise fields.refuse(
            "mamba_d_head",
            f"heads times width must be mamba_expand * hidden_size = {inner}, with mamba_n_heads = {heads}",
        )
    return mamba2(
        sizes.hidden,
        heads=heads,
        head_dim=inner // heads,
        groups=fields.count("mamba_n_groups"),
        state=fields.count("mamba_d_state"),
        conv_kernel=fields.count("mamba_d_conv"),
        conv_bias=fields.flag("mamba_conv_bias"),
        bias=fields.flag("mamba_proj_bias"),
    )


def lfm2_recurrent(fields: Fields, sizes: Sizes) -> Recurrent:
    """Read LFM2's short convolution."""
    return short_convolution(sizes.hidden, kernel=fields.count("conv_L_cache"), bias=fields.flag("conv_bias"))
