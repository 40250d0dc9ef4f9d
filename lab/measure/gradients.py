"""Attention in training: one step forward and backward, and the float64 gradients it is held to."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lab.measure.accuracy import Accuracy, Form, Truth, check
from lab.measure.attention import check_shapes, visible_keys

GRADIENT_SLACK = 2.0
"""Gradients pass through the probabilities twice: their roundings are counted twice."""
NAMES = ("output", "gradient of Q", "gradient of K", "gradient of V")
Results = tuple[Tensor, ...]


@dataclass(frozen=True)
class Step:
    """The inputs of a training step.

    Args:
        q: (batch, heads, q_len, head_dim), requires a gradient, and so do k and v.
        k: (batch, kv_heads, kv_len, head_dim).
        v: (batch, kv_heads, kv_len, head_dim).
        upstream: gradient of the output, in its shape and dtype.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    upstream: Tensor


def forward(function: Callable[[Tensor, Tensor, Tensor], Tensor], step: Step) -> Results:
    """Compute the output, keeping what a backward pass would need.

    Args:
        function: attention of Q, K and V.
        step: the inputs.

    Returns:
        The output alone.
    """
    return (function(step.q, step.k, step.v),)


def forward_and_backward(function: Callable[[Tensor, Tensor, Tensor], Tensor], step: Step) -> Results:
    """Compute the output and the gradients of Q, K and V.

    Args:
        function: attention of Q, K and V.
        step: the inputs.

    Returns:
        The output and three gradients.
    """
    output = function(step.q, step.k, step.v)
    return (output, *torch.autograd.grad(output, (step.q, step.k, step.v), step.upstream))


def true_gradients(step: Step, causal: bool) -> tuple[Truth, ...]:
    """Compute output and gradients in float64, the queries of one KV head at a time.

    Args:
        step: the inputs.
        causal: hide the keys after each query.

    Returns:
        What `forward_and_backward` must give.

    Raises:
        ValueError: shapes that do not fit each other.
    """
    check_shapes(step.q, step.k, step.v, causal)
    q, k, v = (tensor.detach().double() for tensor in (step.q, step.k, step.v))
    upstream = step.upstream.double()
    results = tuple(torch.empty_like(tensor) for tensor in (upstream, q, k, v))
    group = q.shape[1] // k.shape[1]
    for sequence in range(q.shape[0]):
        for head in range(k.shape[1]):
            heads = slice(head * group, (head + 1) * group)
            parts = (q[sequence, heads], k[sequence, head], v[sequence, head])
            found = _one_head(*parts, upstream[sequence, heads], causal)
            for place, result in enumerate(found):
                results[place][sequence, heads if place < 2 else head] = result
    forms = [Form.of(tensor) for tensor in (step.upstream, step.q, step.k, step.v)]
    return tuple(Truth(None, result, k.shape[2], form) for result, form in zip(results, forms, strict=True))


def _one_head(q: Tensor, k: Tensor, v: Tensor, upstream: Tensor, causal: bool) -> Results:
    """Differentiate by hand: dV = PᵀdO, dS = P(dP - rowsum(dO O)), dQ = dS K, dK = dSᵀQ."""
    scale = 1 / math.sqrt(q.shape[-1])
    scores = q @ k.T * scale
    if causal:
        scores.masked_fill_(~visible_keys(q.shape[-2], k.shape[0], q.device), -math.inf)
    probabilities = scores.softmax(dim=-1)
    output = probabilities @ v
    delta = (upstream * output).sum(dim=-1, keepdim=True)
    score_gradient = probabilities * (upstream @ v.T - delta) * scale
    rows = (score_gradient.flatten(0, 1), q.flatten(0, 1))
    value_gradient = probabilities.flatten(0, 1).T @ upstream.flatten(0, 1)
    return output, score_gradient @ k, rows[0].T @ rows[1], value_gradient


def judge(expected: tuple[Truth, ...], found: Results) -> Accuracy:
    """Compare an output, and gradients where there are any, with the truth.

    Args:
        expected: of `true_gradients`.
        found: of `forward` or `forward_and_backward`.

    Returns:
        The first that is wrong, named; else the largest error relative to what is accepted.
    """
    judged = []
    for place, (tensor, true) in enumerate(zip(found, expected, strict=False)):
        accuracy = check(tensor, true, slack=GRADIENT_SLACK if place else 1.0, one_call=not place)
        if accuracy.fault is not None:
            fault = f"{NAMES[place]}: {accuracy.fault}"
            return Accuracy(accuracy.max_abs_error, accuracy.tolerance, accuracy.rows, fault)
        judged.append(accuracy)
    return max(judged, key=lambda each: (each.max_abs_error or 0.0) / each.tolerance)
