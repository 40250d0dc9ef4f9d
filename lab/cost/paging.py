"""The cache as vLLM pages it: blocks of tokens from one pool that all layer kinds share.

A block belongs to one group of layers (as many layers in every group) and is `block_tokens` tokens of each
of them. A request takes blocks from every group: all its tokens for full attention, the window and one block
more for a sliding window, one or two for a recurrent state. Source: vLLM, vllm/v1/kv_cache_interface.py
(max_memory_usage_bytes of each spec) and vllm/v1/core/kv_cache_utils.py (get_num_blocks, group sizes,
get_max_concurrency_for_kv_cache_config).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from lab.cost.cache import CacheLayers
from lab.cost.storage import whole

BLOCK_TOKENS = 16
"""vLLM's default block size on CUDA."""

MAX_BATCHED_TOKENS = 2048
"""Tokens of one scheduler step (max_num_batched_tokens), vLLM's default for a server of modest size."""

STATE_BLOCKS = {"none": 1, "align": 2}
"""Blocks a request takes for a recurrent state, by mamba_cache_mode: "align" is set by prefix caching."""

# vLLM takes the largest group when the kinds differ by less than half, to avoid padding (kv_cache_utils.py).
_EVEN_ENOUGH = Fraction(3, 2)


def blocks_of(tokens: int, block_tokens: int) -> int:
    """Count the blocks that hold some tokens.

    Args:
        tokens: tokens to hold.
        block_tokens: tokens of a block.

    Returns:
        Blocks, the last one filled in part.
    """
    return -(-tokens // block_tokens)


@dataclass(frozen=True)
class PageGroup:
    """Groups of layers of one kind: each takes blocks of its own for every request."""

    kind: str
    groups: int
    block_tokens: int
    request_blocks: int  # blocks one request takes in each group


@dataclass(frozen=True)
class BlockPool:
    """The blocks of a device and what one request of the longest length takes of them."""

    groups: tuple[PageGroup, ...]
    max_tokens: int
    block_bytes: int
    blocks: int

    @property
    def request_blocks(self) -> int:
        """Blocks that one request of max_tokens takes, all groups together."""
        return sum(group.groups * group.request_blocks for group in self.groups)

    @property
    def request_bytes(self) -> int:
        """Bytes reserved for one request of max_tokens."""
        return self.request_blocks * self.block_bytes

    @property
    def concurrency(self) -> Fraction:
        """Requests of max_tokens that fit at a time, as vLLM prints it ("1.56x")."""
        return Fraction(self.blocks, self.request_blocks)

    @property
    def tokens(self) -> int:
        """The "GPU KV cache size" vLLM prints: concurrency times max_tokens."""
        return int(self.concurrency * self.max_tokens)


def block_pool(
    layers: Sequence[CacheLayers],
    available_bytes: int,
    max_tokens: int,
    *,
    block_tokens: int = BLOCK_TOKENS,
    max_batched_tokens: int = MAX_BATCHED_TOKENS,
    state_mode: str = "none",
) -> BlockPool:
    """Divide a device's free memory into blocks, as vLLM does.

    Args:
        layers: what each kind of layer keeps on one rank, from `cache_layers`.
        available_bytes: memory for the cache.
        max_tokens: longest request, prompt and answer (max_model_len).
        block_tokens: tokens of a block, before pages are made equal.
        max_batched_tokens: tokens of one scheduler step; a window keeps room for them.
        state_mode: "none" or "align" (prefix caching on): one or two blocks a recurrent state.

    Returns:
        The pool.

    Raises:
        ValueError: a size below 1, an unknown state_mode, layer kinds whose pages cannot be made equal.
    """
    whole("available_bytes", available_bytes)
    whole("max_tokens", max_tokens)
    whole("max_batched_tokens", max_batched_tokens)
    if not isinstance(state_mode, str) or state_mode not in STATE_BLOCKS:
        raise ValueError(f"state_mode must be one of {', '.join(STATE_BLOCKS)}, got {state_mode!r}")
    kept = [kind for kind in layers if kind.token_bytes or kind.sequence_bytes]
    if not kept:
        raise ValueError("layers must hold at least one layer with a cache, got none")
    page_bytes, group_layers = _page_bytes(kept, whole("block_tokens", block_tokens)), _group_layers(kept)
    options = (page_bytes, group_layers, max_tokens, max_batched_tokens, state_mode)
    groups = tuple(_page_group(kind, *options) for kind in kept)
    block_bytes = page_bytes * group_layers
    return BlockPool(groups, max_tokens, block_bytes, available_bytes // block_bytes)


def _page_bytes(layers: Sequence[CacheLayers], block_tokens: int) -> int:
    """Bytes of a block in one layer: the same for all kinds, so the smaller ones take longer blocks."""
    widest = max(kind.token_bytes for kind in layers)
    state = max(kind.sequence_bytes for kind in layers)
    if widest == 0:
        return state
    # A block grows, in steps of block_tokens, until a recurrent state fits into it.
    steps = max(1, -(-state // (widest * block_tokens)))
    return steps * block_tokens * widest


def _group_layers(layers: Sequence[CacheLayers]) -> int:
    """Layers of a group: those of the rarest kind, unless the kinds are about as frequent."""
    counts = [kind.layers for kind in layers]
    smallest, largest = min(counts), max(counts)
    return largest if largest < smallest * _EVEN_ENOUGH else smallest


def _page_group(
    kind: CacheLayers,
    page_bytes: int,
    group_layers: int,
    max_tokens: int,
    max_batched_tokens: int,
    state_mode: str,
) -> PageGroup:
    groups = -(-kind.layers // group_layers)
    if not kind.token_bytes:
        return PageGroup(kind.kind, groups, max_tokens, STATE_BLOCKS[state_mode])
    if page_bytes % kind.token_bytes:
        raise ValueError(
            f"layers must allow pages of equal size: {page_bytes} bytes are no whole number of the "
            f"{kind.token_bytes}-byte tokens of {kind.kind}"
        )
    block_tokens = page_bytes // kind.token_bytes
    return PageGroup(
        kind.kind, groups, block_tokens, _request_blocks(kind, block_tokens, max_tokens, max_batched_tokens)
    )


def _request_blocks(kind: CacheLayers, block_tokens: int, max_tokens: int, max_batched_tokens: int) -> int:
    if kind.limit is None:
        return blocks_of(max_tokens, block_tokens)
    if kind.span == "chunks":
        return blocks_of(min(kind.limit + max_batched_tokens, max_tokens), block_tokens)
    # The window slides off block boundaries, hence one block more than its tokens fill.
    return blocks_of(min(kind.limit - 1 + max_batched_tokens, max_tokens), block_tokens) + 1
