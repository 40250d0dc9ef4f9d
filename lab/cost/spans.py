"""Which keys a query scores in each kind of attention layer: full, window, chunks, cross."""

from __future__ import annotations

from typing import Any

from lab.cost.exact import Count, count, evaluate, flag, smaller
from lab.cost.formulas import attention_pairs, causal_lengths
from lab.cost.layers import Attention


def chunked_pairs(q_len: Any, kv_len: Any, chunk: Any) -> Count:
    """Count the pairs of chunked-local attention: a query sees its own chunk, up to itself.

    Args:
        q_len: queries, the last q_len of the positions.
        kv_len: positions.
        chunk: positions of a chunk.

    Returns:
        Pairs of one head.

    Raises:
        ValueError: a size below 1, kv_len < q_len.

    Source: Llama 4's chunked attention (attention_chunk_size): position p sees p mod chunk + 1 keys.
    """
    queries, keys = causal_lengths(q_len, kv_len)
    # More keys may mean fewer pairs, where they begin a chunk; hence a bound.
    return evaluate(_chunked, queries, keys, count("chunk", chunk), bound=lambda q, k, c: q * smaller(k, c))


def _chunked(queries: Any, keys: Any, chunk: Any) -> Any:
    """Sum over the chunk the first query falls into, the whole chunks after it, and the last one begun."""
    before = (keys - queries) % chunk
    first = smaller(queries, chunk - before)
    later = queries - first
    whole, rest = smaller(later, chunk), later % chunk
    return (
        first * before
        + first * (first + 1) // 2
        + later // chunk * (whole * (whole + 1) // 2)
        + rest * (rest + 1) // 2
    )


def scored_pairs(
    attention: Attention, q_len: Any, context: Any, *, causal: bool, source_tokens: Any = None
) -> Count:
    """Count the query-key pairs one head of a layer scores.

    Args:
        attention: the layer's attention.
        q_len: new tokens, the last q_len of the context.
        context: tokens seen, the new ones included.
        causal: True counts what the layer's mask keeps (window and chunk exact); False counts every query
            against every key, as a kernel does that applies the mask to a full product.
        source_tokens: length of the other sequence; needed for cross-attention only.

    Returns:
        Pairs of one head; for cross-attention q_len times source_tokens either way.

    Raises:
        ValueError: a size below 1, context < q_len, cross-attention without source_tokens.
    """
    if attention.source_hidden is not None:
        if source_tokens is None:
            raise ValueError("source_tokens must be given for cross-attention, got None")
        return attention_pairs(q_len, source_tokens, False)
    if not flag("causal", causal):
        return attention_pairs(q_len, context, False)
    if attention.chunk is not None:
        return chunked_pairs(q_len, context, attention.chunk)
    return attention_pairs(q_len, context, True, attention.window)
