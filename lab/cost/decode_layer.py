"""One layer's attention in a decode step: what it computes and reads, in the form that is cached.

Latent attention (MLA) is absorbed: a step reads one latent row a token for all heads. That is what the cache
holds and what `lab.cost.serving` counts for a whole model; K and V of every head are never read.
"""

from __future__ import annotations

from lab.cost.cache_rows import token_rows
from lab.cost.calls import AttentionCall
from lab.cost.flops import core_flops, core_widths, layer_scores
from lab.cost.formulas import element_bytes
from lab.cost.layers import Attention
from lab.cost.shapes import ModelShape, decode
from lab.cost.traffic import Operation, operations


def widest_attention(model: ModelShape) -> tuple[Attention, int]:
    """Give the attention that sees most, and how many layers have it; a model's heads are this layer's.

    Args:
        model: any shape.

    Returns:
        The first full attention, else the first; the layers with an equal one.
    """
    groups = [(kind.attention, layers) for kind, layers in model.layer_groups if kind.attention is not None]
    widest = next((one for one, _ in groups if one.span == "full"), groups[0][0])
    return widest, sum(layers for one, layers in groups if one == widest)


def layer_cache_bytes(attention: Attention, batch: int, context: int, dtype: str) -> int:
    """Weigh the rows that one layer keeps, and reads in a step.

    Args:
        attention: of the layer.
        batch: sequences.
        context: tokens of each.
        dtype: of the cache.

    Returns:
        Bytes; a window or chunk caps the tokens, MLA keeps latent rows.
    """
    tokens = attention.cells(context, 0)
    return batch * tokens * sum(token_rows(attention, dtype))


def decode_operation(
    attention: Attention, *, batch: int, context: int, dtype: str, device: str = "cuda"
) -> Operation:
    """Count a fused kernel's step for one new token of each sequence.

    Args:
        attention: of the layer; its window or chunk is taken as full here, as kernels are measured.
        batch: sequences.
        context: tokens of each, the new one included.
        dtype: of queries and cache.
        device: "cpu" or "cuda".

    Returns:
        One pass: FLOPs of both products, bytes read and written.

    Raises:
        ValueError: a bad size or name.

    Source: DeepSeek-V2, arXiv:2405.04434, section 2.1.2 (absorbed); lab.cost.traffic for the others.
    """
    if attention.latent is None:
        (step,) = operations(
            "flash", batch=batch, heads=attention.heads, kv_heads=attention.kv_heads, q_len=1, kv_len=context,
            head_dim=attention.head_dim, dtype=dtype, causal=True, device=device,
        )  # fmt: skip
        return step
    key_width, value_width = core_widths(attention, "absorbed")
    call = AttentionCall(
        batch=batch, heads=attention.heads, kv_heads=1, q_len=1, kv_len=context, head_dim=key_width,
        dtype=dtype, causal=True, device=device,
    )  # fmt: skip
    scores = layer_scores(attention, decode(batch, context, dtype))
    read = call.queries * element_bytes(dtype) + layer_cache_bytes(attention, batch, context, dtype)
    written = call.rows * (value_width * element_bytes(dtype) + call.accumulator)
    return Operation(
        "fused attention", sum(core_flops(attention, scores, "absorbed").values()), read, written
    )
