"""Attention with one fault planted in each function; `attention_with` itself is right."""

import math

import torch


def attention_with(q, k, v, *, causal, scale=None, invert=False, offset=None, drop=None):
    """Eager attention with one fault planted."""
    scores = q.double() @ k.double().mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        offset = k.shape[2] - q.shape[2] if offset is None else offset
        hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu(offset + 1)
        scores = scores.masked_fill(hidden ^ invert, -math.inf)
    if drop is not None:
        scores[..., drop] = -math.inf
    return (scores.softmax(-1) @ v.double()).to(q.dtype)


def missing_scale(q, k, v, *, causal):
    return attention_with(q, k, v, causal=causal, scale=1.0)


def inverted_mask(q, k, v, *, causal):
    return attention_with(q, k, v, causal=causal, invert=True)


def top_left_mask(q, k, v, *, causal):
    return attention_with(q, k, v, causal=causal, offset=0)


def mask_off_by_one(q, k, v, *, causal):
    return attention_with(q, k, v, causal=causal, offset=k.shape[2] - q.shape[2] + 1)


def no_mask(q, k, v, *, causal):
    return attention_with(q, k, v, causal=False)


def zeros(q, k, v, *, causal):
    return torch.zeros_like(q)


def heads_swapped(q, k, v, *, causal):
    return attention_with(q, k, v, causal=causal).flip(1)


def late_rows_wrong(q, k, v, *, causal):
    output = attention_with(q, k, v, causal=causal)
    output[:, :, -1] = output[:, :, 0]
    return output


def not_a_number(q, k, v, *, causal):
    output = attention_with(q, k, v, causal=causal)
    output[0, 0, 3, 5] = math.nan
    return output


def wrong_shape(q, k, v, *, causal):
    return attention_with(q, k, v, causal=causal)[:, :, :-1]
