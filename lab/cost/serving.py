"""A decode step reads the weights once, the cache once per sequence: its traffic, and where both are equal.

All functions broadcast over arrays of batches and contexts. Results are bytes a step reads from memory; what
it computes is lab.cost.budget's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from lab.cost.cache import CacheLayers, Storage, cache_layers, layers_of
from lab.cost.exact import Count, Number, count, evaluate, is_exact, real, total
from lab.cost.shapes import ModelShape
from lab.cost.step_weights import StepWeights, step_weights
from lab.cost.weights import parameter_bytes

_NEWTON_STEPS = 60


@dataclass(frozen=True)
class DecodeTraffic:
    """Bytes one decode step reads; `weights_are_expected` where experts are an expectation in float64."""

    weight_bytes: Any
    cache_bytes: Count
    weights_are_expected: bool

    @property
    def total_bytes(self) -> Any:
        """Weights and cache."""
        if self.weights_are_expected:
            return self.weight_bytes + real("cache_bytes", self.cache_bytes)
        return total((self.weight_bytes, self.cache_bytes))

    @property
    def cache_over_weights(self) -> Any:
        """Cache traffic as a multiple of weight traffic: 1 at the crossover."""
        return _plain(real("cache_bytes", self.cache_bytes) / real("weight_bytes", self.weight_bytes))


def decode_traffic(
    model: ModelShape,
    batch: Any,
    context: Any,
    *,
    weight_type: str | Number = "fp16",
    k_type: Storage = "fp16",
    v_type: Storage | None = None,
    source_tokens: int | None = None,
) -> DecodeTraffic:
    """Count the bytes that one decode step reads.

    Args:
        model: the shape.
        batch: sequences.
        context: tokens of each, the new one included.
        weight_type: a dtype name, or bytes of one parameter.
        k_type: storage of K.
        v_type: storage of V; None for that of K.
        source_tokens: length of the other sequence, for cross-attention.

    Returns:
        The traffic.

    Raises:
        ValueError: a bad size, an unknown type.
    """
    weights = step_weights(model)
    layers = _layers_read(model, k_type, v_type, source_tokens)
    read = _scaled(weights.parameters(batch), parameter_bytes(weight_type))
    cached = total(layer.bytes(batch, context) for layer in layers)
    return DecodeTraffic(read, cached, bool(weights.mixtures))


def crossover_batch(
    model: ModelShape,
    context: Any,
    *,
    weight_type: str | Number = "fp16",
    k_type: Storage = "fp16",
    v_type: Storage | None = None,
    weight_bytes: float | None = None,
    source_tokens: int | None = None,
) -> Any:
    """Find the batch at which a step reads as many bytes of cache as of weights.

    Closed form: batch = fixed weights / (cache of a sequence - rows looked up for it). With experts the
    weights grow with the batch, and the single root is found by Newton's method.

    Args:
        model: the shape.
        context: tokens of each sequence; an integer or an integer array.
        weight_type: a dtype name, or bytes of one parameter.
        k_type: storage of K.
        v_type: storage of V; None for that of K.
        weight_bytes: bytes of weights a step reads, in place of the model's own.
        source_tokens: length of the other sequence, for cross-attention.

    Returns:
        Sequences, not rounded; infinity where no batch suffices.

    Raises:
        ValueError: a bad size, an unknown type.
    """
    layers = _layers_read(model, k_type, v_type, source_tokens)
    cache = real("context", total(layer.bytes(1, context) for layer in layers))
    if weight_bytes is not None:
        return _plain(_ratio(_positive(weight_bytes), cache))
    weights, size = step_weights(model), parameter_bytes(weight_type)
    net = cache / float(size) - weights.per_sequence  # in parameters
    return _plain(_root(weights, net) if weights.mixtures else _ratio(weights.fixed, net))


def crossover_tokens(
    model: ModelShape,
    batch: Any,
    *,
    weight_type: str | Number = "fp16",
    k_type: Storage = "fp16",
    v_type: Storage | None = None,
    weight_bytes: float | None = None,
    source_tokens: int | None = None,
) -> Any:
    """Find the context at which a step reads as many bytes of cache as of weights.

    Closed form: the cache of a sequence grows in straight lines between the lengths at which windows fill up.

    Args:
        model: the shape.
        batch: sequences; an integer or an integer array.
        weight_type: a dtype name, or bytes of one parameter.
        k_type: storage of K.
        v_type: storage of V; None for that of K.
        weight_bytes: bytes of weights a step reads, in place of the model's own.
        source_tokens: length of the other sequence, for cross-attention.

    Returns:
        Tokens of each sequence, not rounded; infinity where windows keep the cache below the weights; 0 where
        states and the other sequence alone are above them.

    Raises:
        ValueError: a bad size, an unknown type.
    """
    sequences = count("batch", batch)
    layers = _layers_read(model, k_type, v_type, source_tokens)
    if weight_bytes is None:
        parameters = real("batch", step_weights(model).parameters(sequences))
        read = parameters * float(parameter_bytes(weight_type))
    else:
        read = np.asarray(_positive(weight_bytes))
    return _plain(_tokens_for(layers, read / real("batch", sequences)))


def _layers_read(
    model: ModelShape, k_type: Storage, v_type: Storage | None, source_tokens: int | None
) -> list[CacheLayers]:
    """List the caches a step reads: those kept, and once more each that a later layer shares."""
    sharing = [
        layers_of(replace(kind.attention, shares_cache=False), layers, k_type, v_type)
        for kind, layers in model.layer_groups
        if kind.attention is not None and kind.attention.shares_cache
    ]
    return [*cache_layers(model, k_type, v_type, source_tokens=source_tokens), *sharing]


def _tokens_for(layers: list[CacheLayers], wanted: np.ndarray) -> np.ndarray:
    """Invert the cache of one sequence: the tokens at which it is `wanted` bytes."""
    growing = [layer for layer in layers if layer.span not in ("cross", "state")]
    lengths = [0, *sorted({layer.limit for layer in growing if layer.limit is not None})]
    constant = sum(int(layer.bytes(1, 1)) for layer in layers if layer not in growing)
    sizes = [
        constant
        + sum(layer.layers * layer.token_bytes * min(length, layer.limit or length) for layer in growing)
        for length in lengths
    ]
    slope = sum(layer.layers * layer.token_bytes for layer in growing if layer.limit is None)
    beyond = lengths[-1] + _ratio(wanted - sizes[-1], slope)
    return np.where(wanted > sizes[-1], beyond, np.interp(wanted, sizes, lengths))


def _root(weights: StepWeights, net: np.ndarray) -> np.ndarray:
    """Solve batch · net = weights(batch); Newton from the right, where the convex difference is positive."""
    batch = _ratio(weights.fixed + sum(mixture.parameters for mixture in weights.mixtures), net)
    for _ in range(_NEWTON_STEPS):
        value, slope = batch * net - weights.fixed, net
        for mixture in weights.mixtures:
            missed = np.exp(batch * np.log1p(-mixture.active / mixture.experts))
            value = value - mixture.parameters * (1 - missed)
            slope = slope + mixture.parameters * missed * np.log1p(-mixture.active / mixture.experts)
        step = np.where(np.isfinite(batch), np.divide(value, slope), 0.0)
        batch = batch - step
        if not np.any(np.abs(step) > 1e-12 * batch):
            break
    return batch


def _ratio(read: Any, each: Any) -> np.ndarray:
    """Divide; infinity where there is nothing to divide by."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(each > 0, np.divide(read, each), np.inf)


def _scaled(parameters: Any, size: Fraction) -> Any:
    """Turn parameters into bytes: exact where they are whole, the last byte counted whole."""
    if is_exact(parameters):
        return evaluate(
            lambda p: -(-p * size.numerator // size.denominator), parameters, headroom=2 * size.denominator
        )
    return parameters * float(size)


def _positive(weight_bytes: float) -> float:
    if isinstance(weight_bytes, bool) or not isinstance(weight_bytes, int | float) or not weight_bytes > 0:
        raise ValueError(f"weight_bytes must be a number more than 0, got {weight_bytes!r}")
    return float(real("weight_bytes", weight_bytes))


def _plain(values: np.ndarray) -> Any:
    """A float for a scalar question, an array for arrays."""
    return values if np.ndim(values) else float(values)
