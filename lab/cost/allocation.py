"""What engines reserve for a cache, beside what it needs.

Needed is the exact cache of the tokens there are. Reserved is what the engine allocates for them: whole
maximum lengths (contiguous tensors), cells padded to 256 (llama.cpp), or blocks of 16 tokens (vLLM).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lab.cost.cache import CacheLayers
from lab.cost.exact import flag
from lab.cost.paging import block_pool
from lab.cost.storage import whole

CELL_PADDING = 256
"""llama.cpp pads a cache to this many cells (llama-context.cpp: GGML_PAD(n_ctx, 256))."""

LLAMA_CPP_RULE = f"cells padded to {CELL_PADDING}; a window keeps window · sequences + n_ubatch cells"

MICRO_BATCH = 512
"""llama.cpp's default n_ubatch: tokens of one step, for which a window keeps room."""


@dataclass(frozen=True)
class AllocatedPart:
    """What is reserved for the layers of one kind: `cells` are tokens of the whole batch."""

    kind: str
    layers: int
    cells: int
    bytes: int


@dataclass(frozen=True)
class Allocation:
    """Needed and reserved bytes of a cache under one engine."""

    engine: str
    needed_bytes: int
    parts: tuple[AllocatedPart, ...]
    rule: str

    @property
    def reserved_bytes(self) -> int:
        """Bytes the engine allocates."""
        return sum(part.bytes for part in self.parts)

    @property
    def unused_bytes(self) -> int:
        """Bytes reserved beyond the need."""
        return self.reserved_bytes - self.needed_bytes


def padded_cells(cells: int, padding: int = CELL_PADDING) -> int:
    """Round cells up to a whole number of paddings.

    Args:
        cells: cells asked for.
        padding: cells they are padded to.

    Returns:
        Cells allocated.
    """
    return -(-cells // padding) * padding


def llama_cpp_cells(
    n_ctx: int,
    *,
    window: int | None = None,
    n_seq: int = 1,
    n_ubatch: int = MICRO_BATCH,
    unified: bool = True,
) -> int:
    """Count the cells llama.cpp allocates in one layer, all sequences together.

    Args:
        n_ctx: context asked for (-c), shared by the sequences.
        window: window or chunk of the layer; None for full attention.
        n_seq: parallel sequences (--parallel).
        n_ubatch: tokens of a step (-ub).
        unified: one buffer for all sequences (--kv-unified); else one stream of n_ctx / n_seq each.

    Returns:
        Cells: n_ctx padded to 256; with a window pad256(min(n_ctx, window·n_seq + n_ubatch)), where separate
        streams have their own n_ctx and n_seq = 1.

    Raises:
        ValueError: a size below 1.

    Source: llama.cpp, llama-context.cpp (n_ctx_seq) and llama-kv-cache-iswa.cpp (size_swa).
    """
    for name, value in (("n_ctx", n_ctx), ("n_seq", n_seq), ("n_ubatch", n_ubatch)):
        whole(name, value)
    streams, sharing = (1, n_seq) if flag("unified", unified) else (n_seq, 1)
    stream_cells = padded_cells(n_ctx)
    if not unified:
        stream_cells = padded_cells(stream_cells // n_seq)
    if window is None:
        return streams * stream_cells
    return streams * padded_cells(min(stream_cells, whole("window", window) * sharing + n_ubatch))


def exact(layers: Sequence[CacheLayers], batch: int, context: int) -> Allocation:
    """Reserve what is needed and nothing more.

    Args:
        layers: from `cache_layers`.
        batch: sequences.
        context: tokens of each.

    Returns:
        The allocation, reserved equal to needed.
    """
    parts = tuple(
        AllocatedPart(kind.kind, kind.layers, batch * _tokens(kind, context), _bytes(kind, batch, context))
        for kind in layers
    )
    return Allocation("exact", _needed(layers, batch, context), parts, "every token held, nothing else")


def contiguous(layers: Sequence[CacheLayers], batch: int, context: int, *, max_context: int) -> Allocation:
    """Reserve the longest sequence for every sequence, as one tensor each.

    Args:
        layers: from `cache_layers`.
        batch: sequences.
        context: tokens each really has.
        max_context: tokens each may grow to.

    Returns:
        The allocation.

    Raises:
        ValueError: context above max_context.

    Source: the baseline of Kwon et al., arXiv 2309.06180, section 3.1.
    """
    if context > max_context:
        raise ValueError(f"context must be at most max_context = {max_context}, got {context}")
    longest = exact(layers, batch, max_context)
    rule = f"{max_context} tokens for every sequence, whatever its length"
    return Allocation("contiguous", _needed(layers, batch, context), longest.parts, rule)


def llama_cpp(
    layers: Sequence[CacheLayers],
    batch: int,
    context: int,
    *,
    n_ctx: int | None = None,
    n_ubatch: int = MICRO_BATCH,
    unified: bool = True,
    full_windows: bool = False,
) -> Allocation:
    """Reserve cells as llama.cpp does when its context is created.

    Args:
        layers: from `cache_layers`.
        batch: parallel sequences (--parallel).
        context: tokens of each sequence.
        n_ctx: context asked for (-c), all sequences together; None for batch · context.
        n_ubatch: tokens of a step (-ub).
        unified: one buffer for all sequences (--kv-unified).
        full_windows: window layers get as many cells as full ones (--swa-full, and engines without windows).

    Returns:
        The allocation.

    Raises:
        ValueError: a size below 1, or n_ctx too small for the sequences.
    """
    asked = _asked(n_ctx, batch * context)
    parts = []
    for kind in layers:
        if kind.span in ("state", "cross"):
            cells = batch * (1 if kind.span == "state" else _tokens(kind, context))
        else:
            window = None if flag("full_windows", full_windows) else kind.limit
            cells = llama_cpp_cells(asked, window=window, n_seq=batch, n_ubatch=n_ubatch, unified=unified)
        size = kind.layers * (cells * kind.token_bytes + batch * kind.sequence_bytes)
        parts.append(AllocatedPart(kind.kind, kind.layers, cells, size))
    return Allocation("llama.cpp", _needed(layers, batch, context), tuple(parts), LLAMA_CPP_RULE)


def _asked(n_ctx: int | None, used: int) -> int:
    if n_ctx is not None and n_ctx < used:
        raise ValueError(f"n_ctx must hold batch · context = {used} tokens, got {n_ctx}")
    return used if n_ctx is None else n_ctx


def vllm(layers: Sequence[CacheLayers], batch: int, context: int, **options: Any) -> Allocation:
    """Reserve blocks as vLLM does for requests that reach a length.

    Args:
        layers: from `cache_layers`, for one rank.
        batch: requests.
        context: tokens of each.
        options: block_tokens, max_batched_tokens and state_mode of `block_pool`.

    Returns:
        The allocation on one rank; `cells` count the tokens of the blocks taken.

    Raises:
        ValueError: as `block_pool`.
    """
    pool = block_pool(layers, 1, context, **options)
    by_kind = {kind.kind: kind.layers for kind in layers}
    parts = tuple(
        AllocatedPart(
            group.kind,
            by_kind[group.kind],
            batch * group.request_blocks * group.block_tokens,
            batch * group.groups * group.request_blocks * pool.block_bytes,
        )
        for group in pool.groups
    )
    rule = f"blocks of {pool.groups[0].block_tokens} tokens from one pool; {pool.request_blocks} a request"
    return Allocation("vLLM", _needed(layers, batch, context), parts, rule)


def _needed(layers: Sequence[CacheLayers], batch: int, context: int) -> int:
    return sum(_bytes(kind, batch, context) for kind in layers)


def _bytes(kind: CacheLayers, batch: int, context: int) -> int:
    return int(kind.bytes(whole("batch", batch), whole("context", context)))


def _tokens(kind: CacheLayers, context: int) -> int:
    return int(kind.tokens(whole("context", context)))


ENGINES: dict[str, Callable[..., Allocation]] = {
    "exact": exact,
    "contiguous": contiguous,
    "llama.cpp": llama_cpp,
    "vllm": vllm,
}
"""The engines by the name the command line takes."""


def allocate(
    engine: str, layers: Sequence[CacheLayers], batch: int, context: int, **options: Any
) -> Allocation:
    """Reserve a cache under an engine chosen by name.

    Args:
        engine: one of ENGINES.
        layers: from `cache_layers`.
        batch: sequences.
        context: tokens of each.
        options: the engine's own options.

    Returns:
        The allocation.

    Raises:
        ValueError: an unknown engine, a size below 1, or as the engine.
    """
    if not isinstance(engine, str) or engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    return ENGINES[engine](layers, whole("batch", batch), whole("context", context), **options)
