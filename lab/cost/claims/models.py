"""Recomputations of whole models: FLOPs of a forward pass, growth laws, and the lengths where terms meet.

Every function takes what a claim states as its inputs and returns base units (FLOPs, tokens, pure numbers);
the shapes come from the catalogue. The first line of its docstring is the formula in words.
"""

from collections.abc import Callable
from fractions import Fraction

from lab.cost import catalog
from lab.cost.claims.attention import (
    Values,
    efficient_peak_bytes,
    layer_attention_flops,
    score_bytes_of,
)
from lab.cost.claims.caches import cache_bytes_of, decode_bytes
from lab.cost.claims.printed import exactly
from lab.cost.formulas import attention_pairs

LONGEST = 2**24  # tokens; a crossing beyond it would be no crossing


def forward_flops(model: str, tokens: int, causal: bool = False) -> dict[str, int]:
    """Count the matmul FLOPs of a prefill by term, logits at every position."""
    shape = catalog.model(model)
    per_token = {"projections": 0, "feed-forward": 0}
    for kind, layers in shape.layer_groups:
        per_token["projections"] += layers * sum(m.flops_per_token for m in kind.attention.matrices)
        per_token["feed-forward"] += layers * sum(m.flops_per_token for m in kind.feed_forward.matrices)
    return {
        "attention": shape.layers * layer_attention_flops(model, tokens, causal),
        **{term: flops * tokens for term, flops in per_token.items()},
        "lm head": 2 * shape.hidden * shape.vocab * tokens,
    }


TERMS: dict[str, Callable[[str, int], int]] = {
    "attention": lambda model, tokens: forward_flops(model, tokens)["attention"],
    "causal attention": lambda model, tokens: forward_flops(model, tokens, causal=True)["attention"],
    "decode attention": lambda model, tokens: layer_attention_flops(model, tokens, False, queries=1),
    "feed-forward": lambda model, tokens: forward_flops(model, tokens)["feed-forward"],
    "prefill": lambda model, tokens: sum(forward_flops(model, tokens).values()),
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
    terms = forward_flops(model, tokens, causal)
    everything = sum(terms.values()) - (0 if lm_head else terms["lm head"])
    return [exactly(Fraction(terms["attention"], everything))]


def attention_flops_of_model(model: str, tokens: int) -> Values:
    """4 · layers · heads · T · T · head_dim: dense attention of a prefill."""
    return [exactly(forward_flops(model, tokens)["attention"])]


def ffn_flops_of_model(model: str, tokens: int) -> Values:
    """2 · T · weights of the FFN matrices, over all layers."""
    return [exactly(forward_flops(model, tokens)["feed-forward"])]


def attention_and_ffn(model: str, tokens: int) -> Values:
    """Dense attention, and FFN, of a prefill over all layers."""
    return attention_flops_of_model(model, tokens) + ffn_flops_of_model(model, tokens)


def ffn_flops_of_layer(model: str, tokens: int) -> Values:
    """2 · T · weights of one layer's FFN matrices (three of them when gated)."""
    return [ffn_flops_of_model(model, tokens)[0].scaled(Fraction(1, catalog.model(model).layers))]


def attention_over_ffn(model: str, tokens: int) -> Values:
    """Dense attention over FFN, FLOPs of a prefill."""
    terms = forward_flops(model, tokens)
    return [exactly(Fraction(terms["attention"], terms["feed-forward"]))]


def attention_passes_ffn(model: str, causal: bool) -> Values:
    """Least context at which attention costs at least the FLOPs of the FFN."""

    def passed(tokens: int) -> bool:
        terms = forward_flops(model, tokens, causal)
        return terms["attention"] >= terms["feed-forward"]

    return [exactly(_least_tokens(passed))]


def attention_is_half(model: str, causal: bool, lm_head: bool) -> Values:
    """Least context at which attention is half of all matmul FLOPs, with or without the LM head."""
    return [
        exactly(
            _least_tokens(
                lambda tokens: attention_share(model, tokens, causal, lm_head)[0].value >= Fraction(1, 2)
            )
        )
    ]


def _least_tokens(passed: Callable[[int], bool]) -> int:
    """Bisect for the first length that passes a test which stays passed from there on."""
    low, high = 0, LONGEST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passed(middle) else (middle, high)
    return high


def shape_numbers(model: str, fields: list[str]) -> Values:
    """The model's own shape, from its config."""
    return [exactly(getattr(catalog.model(model), name)) for name in fields]
