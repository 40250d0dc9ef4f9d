"""Which tokens each layer of a model sees, read from its config: windows, chunks, patterns, hybrids."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lab.cost.family import FULL, RECURRENT, Sizes, Span, Spans
from lab.cost.fields import Fields

Pattern = Callable[[Fields, Sizes], Sequence[str]]

_WORDS = {"full_attention", "sliding_attention", "chunked_attention", "linear_attention", "conv"}


def window_everywhere(fields: Fields, sizes: Sizes) -> Sequence[Span]:
    """Read a family whose every layer has the window, or none where it is null."""
    if fields.raw("layer_types", None) is not None:
        raise fields.refuse("layer_types", "this family gives every layer the same attention")
    window = fields.nullable_count("sliding_window")
    return [FULL if window is None else Span("window", window)] * sizes.layers


def window_when_used(fields: Fields, sizes: Sizes) -> Sequence[Span]:
    """Read a family whose every layer has the window, if use_sliding_window says so."""
    return window_everywhere(fields, sizes) if fields.flag("use_sliding_window") else [FULL] * sizes.layers


def by_types(pattern: Pattern, *, allowed: Sequence[str] = ("full_attention", "sliding_attention")) -> Spans:
    """Read a family that lists the kind of each layer, or follows a documented pattern.

    Args:
        pattern: the kinds where the config has no list.
        allowed: the kinds this family has.

    Returns:
        A reader of spans.
    """

    def spans(fields: Fields, sizes: Sizes) -> Sequence[Span]:
        stated = fields.words("layer_types", allowed, sizes.layers)
        if stated is None:
            return _spans(fields, pattern(fields, sizes))
        if "sliding_window_pattern" in fields.values and list(pattern(fields, sizes)) != stated:
            raise fields.refuse("layer_types", "contradicts sliding_window_pattern")
        return _spans(fields, stated)

    return spans


def _spans(fields: Fields, kinds: Sequence[str]) -> Sequence[Span]:
    known = {"full_attention": FULL, "linear_attention": RECURRENT, "conv": RECURRENT}
    if "sliding_attention" in kinds:
        if "use_sliding_window" in fields.values and not fields.flag("use_sliding_window"):
            raise fields.refuse("layer_types", "sliding_attention contradicts use_sliding_window = false")
        known["sliding_attention"] = Span("window", fields.count("sliding_window"))
    if "chunked_attention" in kinds:
        known["chunked_attention"] = Span("chunk", fields.count("attention_chunk_size"))
    return [known[kind] for kind in kinds]


def every(period: str | int, regular: str = "sliding_attention") -> Pattern:
    """Make the pattern in which every period-th layer is full and the others are `regular`.

    Args:
        period: a number, or the field that holds it.
        regular: kind of the other layers.

    Returns:
        The pattern.
    """

    def kinds(fields: Fields, sizes: Sizes) -> Sequence[str]:
        step = period if isinstance(period, int) else fields.count(period)
        return ["full_attention" if (i + 1) % step == 0 else regular for i in range(sizes.layers)]

    return kinds


def last_windowed(fields: Fields, sizes: Sizes) -> Sequence[str]:
    """Make Qwen2's pattern: the window from layer max_window_layers on, if it is used at all."""
    if not fields.flag("use_sliding_window") or fields.nullable_count("sliding_window") is None:
        return ["full_attention"] * sizes.layers
    first = fields.count("max_window_layers", minimum=0)
    return ["sliding_attention" if i >= first else "full_attention" for i in range(sizes.layers)]


def even_windowed(fields: Fields, sizes: Sizes) -> Sequence[str]:
    """Make Qwen2-MoE's pattern: the window in even layers below max_window_layers, if it is used at all."""
    if not fields.flag("use_sliding_window"):
        return ["full_attention"] * sizes.layers
    end = fields.count("max_window_layers", minimum=0)
    windowed = [i % 2 == 0 and i < end for i in range(sizes.layers)]
    return ["sliding_attention" if local else "full_attention" for local in windowed]


def windowed_if_stated(fields: Fields, sizes: Sizes) -> Sequence[str]:
    """Make Ministral's pattern: all layers windowed, or all full where the window is null."""
    window = fields.nullable_count("sliding_window")
    return ["full_attention" if window is None else "sliding_attention"] * sizes.layers


def full_unless_used(fields: Fields, sizes: Sizes) -> Sequence[str]:
    """Make SmolLM3's pattern: full; its window is modelled only where layer_types lists it."""
    if fields.flag("use_sliding_window"):
        raise fields.refuse("layer_types", "missing, and use_sliding_window = true needs it")
    return ["full_attention"] * sizes.layers


def chunked_where_rotary(fields: Fields, sizes: Sizes) -> Sequence[str]:
    """Make Llama 4's pattern: layers with rotary positions are chunked, those without see everything."""
    if fields.nullable_count("attention_chunk_size") is None:
        return ["full_attention"] * sizes.layers
    rotary = fields.numbers("no_rope_layers", maximum=1)
    if not rotary:
        return every("no_rope_layer_interval", "chunked_attention")(fields, sizes)
    if len(rotary) != sizes.layers:
        raise fields.refuse(
            "no_rope_layers", f"{len(rotary)} entries contradict num_hidden_layers = {sizes.layers}"
        )
    return ["chunked_attention" if on else "full_attention" for on in rotary]


def attention_every(fields: Fields, sizes: Sizes) -> Sequence[Span]:
    """Read Jamba's pattern: attention at attn_layer_offset of each attn_layer_period, else a state space."""
    period = fields.count("attn_layer_period")
    offset = fields.count("attn_layer_offset", minimum=0)
    if offset >= period:
        raise fields.refuse("attn_layer_offset", f"must be below attn_layer_period = {period}, got {offset}")
    return [FULL if i % period == offset else RECURRENT for i in range(sizes.layers)]


def attention_at(name: str) -> Spans:
    """Read a family that lists the indices of its attention layers; the others are recurrent.

    Args:
        name: the field with the list.

    Returns:
        A reader of spans.
    """

    def spans(fields: Fields, sizes: Sizes) -> Sequence[Span]:
        chosen = set(fields.numbers(name, maximum=sizes.layers - 1) or ())
        return [FULL if i in chosen else RECURRENT for i in range(sizes.layers)]

    return spans


def full_or_conv(fields: Fields, sizes: Sizes) -> Sequence[str]:
    """Make LFM2's pattern: attention where full_attn_idxs lists it (everywhere without a list), else conv."""
    listed = fields.numbers("full_attn_idxs", maximum=sizes.layers - 1)
    if listed is None:
        return ["full_attention"] * sizes.layers
    chosen = set(listed)
    return ["full_attention" if i in chosen else "conv" for i in range(sizes.layers)]


def cross_at(fields: Fields, sizes: Sizes) -> Sequence[Span]:
    """Read Mllama's pattern: layers in cross_attention_layers attend to the image, not to the text."""
    listed = fields.numbers("cross_attention_layers", maximum=sizes.layers - 1)
    if listed is None:
        raise fields.refuse("cross_attention_layers", "must list layers, got null")
    chosen = set(listed)
    return [Span("cross") if i in chosen else FULL for i in range(sizes.layers)]
