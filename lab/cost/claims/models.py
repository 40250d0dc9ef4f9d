"""Recomputations of whole models: FLOPs of a forward pass, growth laws, and the lengths where terms meet.

Every function takes what a claim states as its inputs and returns base units (FLOPs, tokens, pure numbers);
the shapes come from the catalogue. The first line of its docstring is the formula in words.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from lab.cost import catalog
from lab.cost.budget import Budget, budget
from lab.cost.claims.attention import (
    Values,
    efficient_peak_bytes,
    layer_attention_flops,
    score_bytes_of,
)
from lab.cost.claims.caches import cache_bytes_of, decode_bytes
from lab.cost.claims.printed import exactly
from lab.cost.crossings import crossing_context
from lab.cost.formulas import attention_pairs
from lab.cost.shapes import prefill


def prefill_budget(model: str, tokens: int, causal: bool = False, lm_head: bool = True) -> Budget:
    """Count the FLOPs of reading one prompt, with logits at every position or without the LM head."""
    work = prefill(1, tokens, "fp16", causal=causal)
    return budget(catalog.model(model), work, logits="all" if lm_head else "none")


TERMS: dict[str, Callable[[str, int], int]] = {
    "attention": lambda model, tokens: prefill_budget(model, tokens).core_flops,
    "causal attention": lambda model, tokens: prefill_budget(model, tokens, causal=True).core_flops,
    "decode attention": lambda model, tokens: layer_attention_flops(model, tokens, False, queries=1),
    "feed-forward": lambda model, tokens: prefill_budget(model, tokens).feed_forward_flops,
    "prefill": lambda model, tokens: prefill_budget(model, tokens).matmul_flops,
    "scores": lambda model, tokens: score_bytes_of(model, tokens, "fp16"),
    "cache": lambda model, tokens: cache_bytes_of(model, 1, tokens, "fp16"),
    "fused peak": lambda model, tokens: efficient_peak_bytes(model, tokens, "fp16"),
    "decode bytes": lambda model, tokens: decode_bytes(model, 1, tokens, "fp16"),
}


def growth(model: str, tokens: int, terms: list[str], factor: int = 2) -> Values:
    """Each term at a longer context over the same term at the context given."""
    return [
        exactly(Fraction(TERMS[term](model, factor * tokens), TERMS[term](model, tokens))) for term in terms
    ]


def latency_factors(model: str, prefill_tokens: list[int], decode_tokens: list[int]) -> Values:
    """Prefill FLOPs, then bytes of a decode step at batch 1, at twice the context over the context given."""
    prefills = [growth(model, tokens, ["prefill"])[0] for tokens in prefill_tokens]
    return prefills + [growth(model, tokens, ["decode bytes"])[0] for tokens in decode_tokens]


def window_growth(model: str, tokens: int) -> Values:
    """Pairs under the model's sliding window at twice the context over the context given."""
    (window,) = {width for width in catalog.model(model).windows if width}
    longer, shorter = (int(attention_pairs(n, n, True, window=window)) for n in (2 * tokens, tokens))
    return [exactly(Fraction(longer, shorter))]


def attention_share(model: str, tokens: int, causal: bool, lm_head: bool) -> Values:
    """Attention's products over all matmul FLOPs of a prefill, with or without the LM head."""
    return [exactly(prefill_budget(model, tokens, causal, lm_head).attention_share)]


def attention_flops_of_model(model: str, tokens: int) -> Values:
    """4 · layers · heads · T · T · head_dim: dense attention of a prefill."""
    return [exactly(prefill_budget(model, tokens).core_flops)]


def ffn_flops_of_model(model: str, tokens: int) -> Values:
    """2 · T · weights of the FFN matrices, over all layers."""
    return [exactly(prefill_budget(model, tokens).feed_forward_flops)]


def attention_and_ffn(model: str, tokens: int) -> Values:
    """Dense attention, and FFN, of a prefill over all layers."""
    return attention_flops_of_model(model, tokens) + ffn_flops_of_model(model, tokens)


def ffn_flops_of_layer(model: str, tokens: int) -> Values:
    """2 · T · weights of one layer's FFN matrices (three of them when gated)."""
    return [ffn_flops_of_model(model, tokens)[0].scaled(Fraction(1, catalog.model(model).layers))]


def attention_over_ffn(model: str, tokens: int) -> Values:
    """Dense attention over FFN, FLOPs of a prefill."""
    found = prefill_budget(model, tokens)
    return [exactly(Fraction(found.core_flops, found.feed_forward_flops))]


def attention_passes_ffn(model: str, causal: bool) -> Values:
    """Least context at which attention costs at least the FLOPs of the FFN."""
    return [exactly(_crossing(model, against="feed-forward", causal=causal))]


def attention_is_half(model: str, causal: bool, lm_head: bool) -> Values:
    """Least context at which attention is half of all matmul FLOPs, with or without the LM head."""
    logits = "all" if lm_head else "none"
    return [exactly(_crossing(model, against="rest", causal=causal, logits=logits))]


def _crossing(model: str, **options: Any) -> int:
    found = crossing_context(catalog.model(model), **options)
    if found is None:
        raise ValueError(f"model must be one whose attention overtakes {options['against']!r}, got {model!r}")
    return found


def shape_numbers(model: str, fields: list[str]) -> Values:
    """The model's own shape, from its config."""
    return [exactly(getattr(catalog.model(model), name)) for name in fields]
