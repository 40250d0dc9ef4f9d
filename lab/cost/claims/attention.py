"""Recomputations of one attention call: pairs, FLOPs, score tensors, live memory, one layer's cache.

Every function takes what a claim states as its inputs and returns base units (bytes, FLOPs, pure numbers);
the shapes come from the catalogue. The first line of its docstring is the formula in words.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from lab.cost import catalog
from lab.cost.claims.printed import Interval, exactly
from lab.cost.formulas import (
    attention_flops,
    attention_pairs,
    element_bytes,
    kv_bytes,
    logits_bytes,
    mask_bytes,
    score_bytes,
)
from lab.cost.traffic import operations, peak_extra_bytes

Values = list[Interval]


def score_bytes_of(model: str, tokens: int, dtype: str, one_head: bool = False) -> int:
    """Weigh one layer's score tensor for one sequence, or one head's share of it."""
    heads = 1 if one_head else catalog.model(model).heads
    return int(score_bytes(1, heads, tokens, tokens, element_bytes(dtype)))


def layer_attention_flops(model: str, tokens: int, causal: bool, queries: int | None = None) -> int:
    """Count both attention products of one layer; every token is a query unless fewer are named."""
    shape = catalog.model(model)
    return int(attention_flops(1, shape.heads, queries or tokens, tokens, shape.head_dim, causal))


def layer_cache_bytes(model: str, batch: int, tokens: int, dtype: str) -> int:
    """Weigh K and V of one layer."""
    shape = catalog.model(model)
    return int(kv_bytes(batch, 1, shape.kv_heads, tokens, shape.head_dim, element_bytes(dtype)))


def logits_bytes_of(model: str, tokens: int, dtype: str) -> int:
    """Weigh the logits of one sequence, all positions kept."""
    return int(logits_bytes(1, tokens, catalog.model(model).vocab, element_bytes(dtype)))


def _call(model: str, tokens: int, dtype: str) -> dict[str, Any]:
    shape = catalog.model(model)
    sizes = {"batch": 1, "heads": shape.heads, "kv_heads": shape.kv_heads, "head_dim": shape.head_dim}
    return {**sizes, "q_len": tokens, "kv_len": tokens, "dtype": dtype, "causal": True, "device": "cuda"}


def efficient_peak_bytes(model: str, tokens: int, dtype: str) -> int:
    """Weigh the live memory of the fused kernel beyond its inputs."""
    return peak_extra_bytes("efficient", **_call(model, tokens, dtype))


def score_tensor(model: str, tokens: list[int], dtype: str, one_head: bool = False) -> Values:
    """Heads · T · T · bytes per element, for one sequence and one layer."""
    return [exactly(score_bytes_of(model, count, dtype, one_head)) for count in tokens]


def score_elements(model: str, tokens: list[int], one_head: bool = False) -> Values:
    """Heads · T · T elements, for one sequence and one layer."""
    heads = 1 if one_head else catalog.model(model).heads
    return [exactly(heads * int(attention_pairs(count, count, False))) for count in tokens]


def pairs_per_head(queries: int, keys: int, causal: bool) -> Values:
    """Query-key pairs that one head scores: queries · keys, or T(T + 1)/2 with a causal mask."""
    return [exactly(int(attention_pairs(queries, keys, causal)))]


def causal_share(tokens: list[int]) -> Values:
    """Causal pairs over all pairs: T(T + 1)/2 over T · T."""
    return [
        exactly(int(attention_pairs(count, count, True)) / int(attention_pairs(count, count, False)))
        for count in tokens
    ]


def flops_coefficient(queries: int, keys: int, head_dim: int, products: int) -> Values:
    """FLOPs of both products of one head, or of one of them, over queries · keys · head_dim."""
    both = int(attention_flops(1, 1, queries, keys, head_dim, False))
    return [exactly(Fraction(both * products, 2 * queries * keys * head_dim))]


def multiply_adds(model: str, tokens: int, one_head: bool) -> Values:
    """Multiply-adds of QKᵀ, exponentials, multiply-adds of PV: dense, one prompt, one head or one layer."""
    shape = catalog.model(model)
    heads = 1 if one_head else shape.heads
    pairs = heads * int(attention_pairs(tokens, tokens, False))
    product = int(attention_flops(1, heads, tokens, tokens, shape.head_dim, False)) // 4
    return [exactly(product), exactly(pairs), exactly(product)]


def multiply_adds_per_square(model: str, tokens: int) -> Values:
    """Multiply-adds of one product of one head over T · T · head_dim."""
    product = multiply_adds(model, tokens, one_head=True)[0]
    return [product.scaled(Fraction(1, tokens * tokens * catalog.model(model).head_dim))]


def head_flops(model: str, tokens: int) -> Values:
    """4 · T · T · head_dim: the FLOPs of both dense products of one head over a whole prompt."""
    return [exactly(int(attention_flops(1, 1, tokens, tokens, catalog.model(model).head_dim, False)))]


def layer_flops(model: str, tokens: int, causal: bool = False) -> Values:
    """4 · heads · T · T · head_dim: the FLOPs of both products of one layer over a whole prompt."""
    return [exactly(layer_attention_flops(model, tokens, causal))]


def token_flops(model: str, tokens: int) -> Values:
    """4 · heads · T · head_dim: both products of one layer, for one query that sees T keys."""
    return [exactly(layer_attention_flops(model, tokens, causal=False, queries=1))]


def output_tensor(model: str, tokens: int, dtype: str) -> Values:
    """Heads · T · head_dim · bytes per element: the output of one layer's attention."""
    shape = catalog.model(model)
    return [exactly(shape.heads * tokens * shape.head_dim * element_bytes(dtype))]


def live_peak(implementation: str, model: str, tokens: list[int], dtype: str) -> Values:
    """Live memory beyond the inputs at its peak, in closed form (lab.cost.traffic)."""
    return [exactly(peak_extra_bytes(implementation, **_call(model, count, dtype))) for count in tokens]


def naive_sum(model: str, tokens: int, dtype: str) -> Values:
    """Two score tensors, one boolean mask and the output: what the direct function holds on the chapter's card."""
    mask, output = int(mask_bytes(tokens, tokens, 1)), output_tensor(model, tokens, dtype)[0].value
    return [exactly(2 * score_bytes_of(model, tokens, dtype) + mask + output)]


def live_score_tensors(implementation: str, model: str, tokens: int, dtype: str) -> Values:
    """Live memory at its peak over one score tensor, in closed form (lab.cost.traffic)."""
    peak = peak_extra_bytes(implementation, **_call(model, tokens, dtype))
    return [exactly(peak / score_bytes_of(model, tokens, dtype))]


def score_passes(implementation: str, model: str, tokens: int, dtype: str) -> Values:
    """Bytes read and written by every operation over the bytes of one score tensor (lab.cost.traffic)."""
    steps = operations(implementation, **_call(model, tokens, dtype))
    moved = sum(step.read_bytes + step.written_bytes for step in steps)
    return [exactly(moved / score_bytes_of(model, tokens, dtype))]


def cache_of_layer(model: str, batch: int, tokens: int, dtype: str) -> Values:
    """2 · batch · kv_heads · T · head_dim · bytes per element: K and V of one layer."""
    return [exactly(layer_cache_bytes(model, batch, tokens, dtype))]


def logits_tensor(model: str, tokens: int, dtype: str) -> Values:
    """T · vocabulary · bytes per element: the logits of every position."""
    return [exactly(logits_bytes_of(model, tokens, dtype))]


def scores_over_logits(model: str, tokens: int, dtype: str) -> Values:
    """One layer's score tensor over the logits of every position: heads · T over vocabulary."""
    return [exactly(score_bytes_of(model, tokens, dtype) / logits_bytes_of(model, tokens, dtype))]


def scores_pass_logits(model: str) -> Values:
    """Vocabulary over heads: the length at which one score tensor weighs as much as the logits."""
    shape = catalog.model(model)
    return [exactly(shape.vocab / shape.heads)]


def live_scores_pass_logits(model: str, live: int) -> Values:
    """Vocabulary over live · heads: the length at which so many score tensors weigh as much as the logits."""
    shape = catalog.model(model)
    return [exactly(shape.vocab / (live * shape.heads))]


def resolution(dtype: str) -> Values:
    """Spacing of the dtype's numbers just above 1 (IEEE 754)."""
    names = {"fp16": "float16", "fp32": "float32", "fp64": "float64"}
    return [exactly(float(np.finfo(np.dtype(names[dtype])).eps))]


def mask_share_of_traffic(implementation: str, model: str, tokens: int, dtype: str) -> Values:
    """Bytes moved to build and apply the mask over the bytes of every operation (lab.cost.traffic)."""
    steps = operations(implementation, **_call(model, tokens, dtype))
    moved = {step.name: step.read_bytes + step.written_bytes for step in steps}
    masking = sum(count for name, count in moved.items() if "mask" in name)
    return [exactly(masking / sum(moved.values()))]


def idle_multiprocessors(model: str, multiprocessors: int) -> Values:
    """Share of the multiprocessors left without work when each head of one sequence is one work item."""
    return [exactly(1 - catalog.model(model).heads / multiprocessors)]
