"""The feed-forward block of each layer, read from a config: dense, a mixture of experts, or both in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lab.cost.family import Family, FeedForwards, Sizes
from lab.cost.fields import Fields
from lab.cost.layers import FeedForward

ExpertsOf = Callable[[Fields, Sizes], dict[str, Any]]


def common(fields: Fields, sizes: Sizes, family: Family) -> dict[str, Any]:
    """Read what dense blocks and experts of a family share."""
    bias = fields.option(family.ffn_bias)
    return {"hidden": sizes.hidden, "gated": family.gated, "in_bias": bias, "out_bias": bias}


def dense_block(fields: Fields, sizes: Sizes, family: Family) -> FeedForward:
    """Read the dense block of a family."""
    width = None
    if family.ffn_multiple is not None:
        width = fields.nullable_count("intermediate_size") or family.ffn_multiple * sizes.hidden
    return FeedForward(
        intermediate=width or fields.count("intermediate_size"), **common(fields, sizes, family)
    )


def dense(fields: Fields, sizes: Sizes, family: Family) -> Sequence[FeedForward]:
    """Read a family whose layers are all dense."""
    return [dense_block(fields, sizes, family)] * sizes.layers


def _mixture(
    fields: Fields, sizes: Sizes, family: Family, *, experts: str, width: str, **extra: Any
) -> FeedForward:
    number = fields.count(experts, minimum=2)
    active = fields.count("num_experts_per_tok")
    if active > number:
        raise fields.refuse(
            "num_experts_per_tok", f"must be at most {fields.label(experts)} = {number}, got {active}"
        )
    return FeedForward(
        intermediate=fields.count(width),
        experts=number,
        active_experts=active,
        router_bias=family.router_bias,
        **common(fields, sizes, family) | extra,
    )


def mixtral(fields: Fields, sizes: Sizes, family: Family) -> Sequence[FeedForward]:
    """Read a family whose layers are all mixtures, with experts as wide as intermediate_size."""
    block = _mixture(fields, sizes, family, experts="num_local_experts", width="intermediate_size")
    return [block] * sizes.layers


def qwen_moe(*, shared: bool) -> FeedForwards:
    """Read Qwen's mixtures: every decoder_sparse_step-th layer, except those in mlp_only_layers.

    Args:
        shared: whether there is a gated shared expert.

    Returns:
        A reader of feed-forward blocks.
    """

    def blocks(fields: Fields, sizes: Sizes, family: Family) -> Sequence[FeedForward]:
        step = fields.count("decoder_sparse_step")
        only_dense = set(fields.numbers("mlp_only_layers", maximum=sizes.layers - 1) or ())
        sparse = [(i + 1) % step == 0 and i not in only_dense for i in range(sizes.layers)]
        extra: dict[str, Any] = {}
        if shared:
            width = fields.count("shared_expert_intermediate_size")
            extra = {"shared_intermediate": width, "shared_gate": True}
        names = {"experts": "num_experts", "width": "moe_intermediate_size"}
        return _either(
            fields, sizes, family, sparse, lambda: _mixture(fields, sizes, family, **names, **extra)
        )

    return blocks


def deepseek(fields: Fields, sizes: Sizes, family: Family) -> Sequence[FeedForward]:
    """Read DeepSeek's mixtures: all layers after the first first_k_dense_replace, with shared experts."""
    if fields.optional_count("moe_layer_freq") not in (None, 1):
        raise fields.refuse("moe_layer_freq", "only 1 is modelled")
    if fields.raw("mlp_bias", False):
        raise fields.refuse("mlp_bias", "only false is modelled")
    first = fields.count("first_k_dense_replace", minimum=0)
    width = fields.count("moe_intermediate_size")
    shared = fields.count("n_shared_experts", minimum=0) * width
    return _either(
        fields,
        sizes,
        family,
        [i >= first for i in range(sizes.layers)],
        lambda: _mixture(
            fields,
            sizes,
            family,
            experts="n_routed_experts",
            width="moe_intermediate_size",
            shared_intermediate=shared,
        ),
    )


def llama4(fields: Fields, sizes: Sizes, family: Family) -> Sequence[FeedForward]:
    """Read Llama 4's mixtures: moe_layers, or each interleave_moe_layer_step-th, with a shared expert."""
    listed = fields.numbers("moe_layers", maximum=sizes.layers - 1)
    step = fields.count("interleave_moe_layer_step")
    chosen = set(range(step - 1, sizes.layers, step) if listed is None else listed)
    width = fields.count("intermediate_size")
    mixture = _mixture(
        fields,
        sizes,
        family,
        experts="num_local_experts",
        width="intermediate_size",
        shared_intermediate=width,
    )
    if len(chosen) == sizes.layers:
        return [mixture] * sizes.layers
    plain = FeedForward(intermediate=fields.count("intermediate_size_mlp"), **common(fields, sizes, family))
    return [mixture if i in chosen else plain for i in range(sizes.layers)]


def jamba(fields: Fields, sizes: Sizes, family: Family) -> Sequence[FeedForward]:
    """Read Jamba's mixtures: at expert_layer_offset of each expert_layer_period."""
    period = fields.count("expert_layer_period")
    offset = fields.count("expert_layer_offset", minimum=0)
    if fields.count("num_experts") == 1:
        return dense(fields, sizes, family)
    return _either(
        fields,
        sizes,
        family,
        [i % period == offset for i in range(sizes.layers)],
        lambda: _mixture(fields, sizes, family, experts="num_experts", width="intermediate_size"),
    )


def lfm2(fields: Fields, sizes: Sizes, family: Family) -> Sequence[FeedForward]:
    """Read LFM2's dense blocks, whose stated width is cut to two thirds and rounded up."""
    width = fields.optional_count("block_ff_dim") or fields.count("intermediate_size")
    if fields.flag("block_auto_adjust_ff_dim"):
        multiplier = fields.raw("block_ffn_dim_multiplier")
        if isinstance(multiplier, bool) or multiplier not in (None, 1, 1.0):
            raise fields.refuse("block_ffn_dim_multiplier", "only 1.0 is modelled")
        multiple = fields.count("block_multiple_of")
        width = -(-(2 * width // 3) // multiple) * multiple
    return [FeedForward(intermediate=width, **common(fields, sizes, family))] * sizes.layers


def _either(
    fields: Fields,
    sizes: Sizes,
    family: Family,
    sparse: Sequence[bool],
    mixture: Callable[[], FeedForward],
) -> Sequence[FeedForward]:
    """Read the mixture and the dense block only where some layer has them: unused sizes may be missing."""
    experts = mixture() if any(sparse) else None
    plain = None if all(sparse) else dense_block(fields, sizes, family)
    blocks = [experts if here else plain for here in sparse]
    return [block for block in blocks if block is not None]
