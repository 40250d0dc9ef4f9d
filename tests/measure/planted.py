"""Attention with one fault planted in each function; `attention_with` itself is right.

`BREACHES` lists those whose numbers are right at first, or whose output is no tensor to be compared: what makes
each (some remember their calls, so that each test makes its own), and what a point must say of it.
"""

import math
from dataclasses import replace

import torch
from torch.nn.functional import scaled_dot_product_attention


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


def plant(monkeypatch, implementations, name, function):
    """Put a function in the place of an implementation."""
    monkeypatch.setitem(implementations, name, replace(implementations[name], function=function))


def right(q, k, v, *, causal):
    return scaled_dot_product_attention(q, k, v, is_causal=causal)


class Calls:
    """Counts the calls of each kind: two masks are two cases."""

    def __init__(self):
        self.seen = {}

    def number(self, k, causal):
        kind = k.shape, causal
        self.seen[kind] = self.seen.get(kind, 0) + 1
        return self.seen[kind]


def giving(change):
    """Right attention whose output is changed at the end."""
    return lambda: lambda q, k, v, *, causal: change(right(q, k, v, causal=causal))


def right_once():
    calls = Calls()

    def function(q, k, v, *, causal):
        output = right(q, k, v, causal=causal)  # a kernel runs, and is seen
        return output if calls.number(k, causal) == 1 else torch.zeros_like(output)

    return function


def remembering():
    """Remember the output by the place of Q in memory."""
    known = {}

    def function(q, k, v, *, causal):
        right(q[:, :, :1], k[:, :, :1], v[:, :, :1], causal=causal)
        key = q.data_ptr(), q.shape, causal
        if key not in known:
            known[key] = right(q, k, v, causal=causal)
        return known[key]

    return function


def overwriting():
    def function(q, k, v, *, causal):
        output = right(q, k, v, causal=causal)
        q.zero_()
        v.mul_(1.5)
        return output

    return function


def overwriting_later():
    """Leave the inputs alone until the call is timed."""
    calls = Calls()

    def function(q, k, v, *, causal):
        output = right(q, k, v, causal=causal)
        if calls.number(k, causal) > 2:
            k.add_(1.0)
        return output

    return function


def overwriting_once():
    """Change the inputs in the third call alone."""
    calls = Calls()

    def function(q, k, v, *, causal):
        output = right(q, k, v, causal=causal)
        if calls.number(k, causal) == 3:
            k.add_(1.0)
        return output

    return function


def answering_in_place():
    def function(q, k, v, *, causal):
        return q.copy_(right(q, k, v, causal=causal))

    return function


def raising(error, after=0):
    """Raise, at once or once some calls went well."""

    def make():
        calls = Calls()

        def function(q, k, v, *, causal):
            if calls.number(k, causal) > after:
                raise error
            return right(q, k, v, causal=causal)

        return function

    return make


BREACHES = {
    "bf16 output": (giving(torch.Tensor.bfloat16), "wrong", "the output is bf16, the inputs are fp32"),
    "fp16 output": (giving(torch.Tensor.half), "wrong", "the output is fp16, the inputs are fp32"),
    "fp64 output": (giving(torch.Tensor.double), "wrong", "the output is fp64, the inputs are fp32"),
    "complex output": (
        giving(lambda o: o.to(torch.complex64)),
        "wrong",
        "the output is complex64, the inputs",
    ),
    "int output": (giving(torch.Tensor.int), "wrong", "the output is int32, the inputs are fp32"),
    "tuple": (giving(lambda o: (o,)), "wrong", "the output is no tensor but of the type tuple"),
    "None": (giving(lambda o: None), "wrong", "the output is no tensor but of the type NoneType"),
    "meta": (giving(lambda o: o.to("meta")), "wrong", "the output lies on meta, the inputs on cpu"),
    "one head": (giving(lambda o: o[:, :1]), "wrong", "the output has the shape (1, 1, 16, 32) instead of"),
    "three dimensions": (giving(lambda o: o[0]), "wrong", "the output has the shape (4, 16, 32) instead of"),
    "right once": (right_once, "wrong", "a later call, on other numbers in the same place: "),
    "remembering": (remembering, "wrong", "a later call, on other numbers in the same place: "),
    "overwriting": (overwriting, "wrong", "the call changed its inputs"),
    "overwriting later": (
        overwriting_later,
        "wrong",
        "a later call, on other numbers in the same place: the call",
    ),
    "answering in place": (answering_in_place, "wrong", "the call changed its inputs"),
    "KeyError": (raising(KeyError("x")), "refused", "KeyError: 'x'"),
    "TypeError": (raising(TypeError("no")), "refused", "TypeError: no"),
    "nothing said": (raising(RuntimeError("")), "refused", "RuntimeError"),
    "second call": (raising(KeyError("x"), after=1), "crashed", "KeyError: 'x'"),
    "while measured": (raising(ValueError("x"), after=2), "crashed", "ValueError: x"),
}
