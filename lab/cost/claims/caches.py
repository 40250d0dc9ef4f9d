"""Recomputations of caches, weights and what a card holds; the shapes come from the catalogue.

Base units throughout (bytes, sequences, pure numbers). The first line of a docstring is the formula in words.
"""

from fractions import Fraction

from lab.cost import catalog
from lab.cost.claims.attention import Values
from lab.cost.claims.facts import published_rows
from lab.cost.claims.printed import UNITS, corners, exactly, read_figure
from lab.cost.formulas import element_bytes, kv_bytes
from lab.cost.shapes import weight_bytes


def cache_bytes_of(model: str, batch: int, tokens: int, dtype: str) -> int:
    """Weigh a model's cache, all layers."""
    shape = catalog.model(model)
    return int(kv_bytes(batch, shape.layers, shape.kv_heads, tokens, shape.head_dim, element_bytes(dtype)))


def weight_bytes_of(model: str, dtype: str) -> int:
    """Weigh every parameter of a model."""
    return weight_bytes(catalog.model(model), element_bytes(dtype))


def decode_bytes(model: str, batch: int, tokens: int, dtype: str) -> int:
    """Weigh what a decode step reads: the weights once, the cache of every sequence."""
    return weight_bytes_of(model, dtype) + cache_bytes_of(model, batch, tokens, dtype)


def cache(model: str, batch: int, tokens: int, dtype: str) -> Values:
    """2 · batch · layers · kv_heads · T · head_dim · bytes per element: K and V of all layers."""
    return [exactly(cache_bytes_of(model, batch, tokens, dtype))]


def cache_step(model: str, tokens: int) -> Values:
    """What one more token adds to the cache, over what a lone token takes."""
    grown = cache_bytes_of(model, 1, tokens + 1, "fp16") - cache_bytes_of(model, 1, tokens, "fp16")
    return [exactly(Fraction(grown, cache_bytes_of(model, 1, 1, "fp16")))]


def cached_tensors(model: str) -> Values:
    """Cache of one token over layers · kv_heads · head_dim · bytes per element."""
    shape = catalog.model(model)
    one_tensor = shape.layers * shape.kv_heads * shape.head_dim * element_bytes("fp16")
    return [exactly(Fraction(cache_bytes_of(model, 1, 1, "fp16"), one_tensor))]


def weights(model: str, dtype: str) -> Values:
    """Parameters · bytes per element."""
    return [exactly(weight_bytes_of(model, dtype))]


def cache_over_weights(model: str, batch: int, tokens: int, dtype: str, weights_mb: str) -> Values:
    """Cache of the batch over the weights as printed in MB."""
    cached = cache_bytes_of(model, batch, tokens, dtype)
    return [corners(lambda printed: cached / printed, read_figure(weights_mb).interval.scaled(UNITS["MB"]))]


def crossover_batch(model: str, tokens: int, dtype: str) -> Values:
    """Weights over the cache of one sequence: the batch at which both are read equally."""
    return [exactly(Fraction(weight_bytes_of(model, dtype), cache_bytes_of(model, 1, tokens, dtype)))]


def first_batch_beyond(model: str, tokens: int, dtype: str, parameters: int) -> Values:
    """Least batch whose cache is larger than the given number of parameters in the same dtype."""
    each = cache_bytes_of(model, 1, tokens, dtype)
    return [exactly(parameters * element_bytes(dtype) // each + 1)]


def sequences_that_fit(model: str, tokens: int, dtype: str, memory_gb: int) -> Values:
    """Memory less weights, over the cache of one sequence, whole sequences only."""
    room = memory_gb * UNITS["GB"] - weight_bytes_of(model, dtype)
    return [exactly(room // cache_bytes_of(model, 1, tokens, dtype))]


def query_heads_per_kv_head(models: list[str]) -> Values:
    """Query heads over KV heads: what grouping divides the cache by."""
    shapes = [catalog.model(name) for name in models]
    return [exactly(Fraction(shape.heads, shape.kv_heads)) for shape in shapes]


def gqa_saving_over_groups(model: str, tokens: int) -> Values:
    """Cache with as many KV heads as query heads over the model's own, over heads per KV head."""
    shape = catalog.model(model)
    full = int(kv_bytes(1, shape.layers, shape.heads, tokens, shape.head_dim, element_bytes("fp16")))
    saving = Fraction(full, cache_bytes_of(model, 1, tokens, "fp16"))
    return [exactly(saving / Fraction(shape.heads, shape.kv_heads))]


def card_memory(card: str) -> Values:
    """Memory of the card, from its data sheet."""
    return [exactly(_established(card, "memory_bytes"))]


def card_capability(card: str) -> Values:
    """Compute capability of the card."""
    return [exactly(_established(card, "compute_capability"))]


def _established(card: str, figure: str) -> Fraction:
    """Read a figure of a data sheet that some source establishes."""
    value = getattr(catalog.card(card), figure)
    if value is None:
        raise ValueError(f"card must be one whose {figure} is established, got {card!r}")
    return Fraction(value)


def flash_speed_ups(tokens: int) -> Values:
    """FlashAttention-2 over standard attention, TFLOP/s, in every published table that has both."""
    pairs = published_rows(tokens, "flash2", baselines=("pytorch", "standard"))
    return [corners(lambda fast, slow: fast / slow, *pair) for pair in pairs]
