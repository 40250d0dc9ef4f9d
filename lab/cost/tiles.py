"""The work of a fused attention kernel: tiles of query rows by keys, handed out to the slots of a device.

A causal mask saves whole tiles only: a tile that the diagonal crosses is computed in full. A launch lasts as
long as its busiest slot (a thread, a multiprocessor). Both belong to a prediction: at T = 512 a kernel
with 64 by 64 tiles computes 12 % more pairs than the mask needs, and the 96 blocks of 12 heads do not
divide evenly among 34 multiprocessors.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from typing import NamedTuple

from lab.cost.peaks import cpu_flash_blocks

LIST, STATIC = "list", "static"


class Tile(NamedTuple):
    """Query rows and keys that one step of a fused kernel covers."""

    q_rows: int
    keys: int

    @property
    def name(self) -> str:
        """Rows by keys, as kernel names write it: "64x64"."""
        return f"{self.q_rows}x{self.keys}"


def cpu_tile(q_len: int, kv_len: int) -> Tile:
    """Give the tile of PyTorch's CPU flash kernel for a shape.

    Args:
        q_len: queries.
        kv_len: keys.

    Returns:
        256, 64 or 32 query rows (by length) and up to 512 keys.
    """
    return Tile(*cpu_flash_blocks(q_len, kv_len))


def cuda_tile(implementation: str, head_dim: int, compute_capability: str) -> Tile:
    """Give the usual tile of a CUDA kernel; `tile_of_kernel` reads it from a profiled kernel's name instead.

    Args:
        implementation: "efficient" or "flash".
        head_dim: width of a head.
        compute_capability: of the card, such as "7.5".

    Returns:
        The tile.

    Raises:
        ValueError: an implementation without tiles.

    Source: PyTorch, aten/src/ATen/native/transformers/cuda: mem_eff_attention/kernels/cutlassF.h (efficient)
        and flash_attn/flash_fwd_launch_template.h (flash; without the smaller tiles of compute capability
        8.6 and 8.9 for head_dim 128).
    """
    if implementation == "flash":
        return Tile(128, 128 if head_dim <= 64 else 64)
    if implementation != "efficient":
        raise ValueError(f"implementation must be efficient or flash to have tiles, got {implementation!r}")
    if head_dim <= 64:
        return Tile(64, 64)
    return Tile(64 if head_dim <= 128 and float(compute_capability) >= 8 else 32, 128)


def tile_of_kernel(kernel: str) -> Tile | None:
    """Read the tile from the name of a profiled CUDA kernel.

    Args:
        kernel: such as "fmha_cutlassF_f16_aligned_64x64_rf_sm75" or
            "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, …> …>".

    Returns:
        The tile, or None where the name does not tell.
    """
    cutlass = re.search(r"fmha\w*?_(\d+)x(\d+)_", kernel)
    if cutlass:
        return Tile(int(cutlass[1]), int(cutlass[2]))
    traits = re.search(r"kernel_traits<\s*\d+,\s*(\d+),\s*(\d+)", kernel, re.IGNORECASE)
    return Tile(int(traits[1]), int(traits[2])) if traits else None


def block_pairs(q_len: int, kv_len: int, tile: Tile, causal: bool) -> list[int]:
    """Count the pairs that each block of query rows computes, in launch order.

    Args:
        q_len: queries.
        kv_len: keys.
        tile: the kernel's tile.
        causal: whether keys after the last query of a block are skipped, in whole tiles; queries are the
            last q_len of the kv_len positions.

    Returns:
        Pairs of one head, a number per block.

    Raises:
        ValueError: more queries than keys when causal.
    """
    if causal and kv_len < q_len:
        raise ValueError(f"kv_len must be at least q_len when causal, got kv_len={kv_len} and q_len={q_len}")
    pairs = []
    for first in range(0, q_len, tile.q_rows):
        rows = min(tile.q_rows, q_len - first)
        keys = kv_len
        if causal:
            needed = kv_len - q_len + first + rows
            keys = min(kv_len, -(-needed // tile.keys) * tile.keys)
        pairs.append(rows * keys)
    return pairs


def makespan(work: Sequence[float], slots: int, schedule: str = LIST) -> float:
    """Find when the last slot finishes.

    Args:
        work: the work of each item, in the order of launch.
        slots: items that run at a time.
        schedule: "list" (a free slot takes the next item: thread blocks on multiprocessors) or "static"
            (equal contiguous shares, fixed in advance: PyTorch's parallel_for on CPU threads).

    Returns:
        The work of the busiest slot, in the unit of `work`.

    Raises:
        ValueError: no slot, or an unknown schedule.

    Source: Graham, "Bounds on multiprocessing timing anomalies", 1969 (list scheduling);
        aten/src/ATen/ParallelOpenMP.h (chunks of ceil(items / threads)).
    """
    if slots < 1:
        raise ValueError(f"slots must be at least 1, got {slots}")
    if schedule == STATIC:
        share = max(1, -(-len(work) // slots))
        return max((sum(work[first : first + share]) for first in range(0, len(work), share)), default=0)
    if schedule != LIST:
        raise ValueError(f"schedule must be list or static, got {schedule!r}")
    finish: list[float] = [0.0] * min(slots, max(1, len(work)))
    for item in work:
        heapq.heapreplace(finish, finish[0] + item)
    return max(finish)


def slot_pairs(
    heads: int, q_len: int, kv_len: int, tile: Tile, causal: bool, slots: int, schedule: str = LIST
) -> float:
    """Count the pairs of the busiest slot: what a fused launch waits for.

    Args:
        heads: independent heads, batch times query heads.
        q_len: queries.
        kv_len: keys.
        tile: the kernel's tile.
        causal: whether tiles above the diagonal are skipped.
        slots: blocks that run at a time.
        schedule: as in `makespan`; heads are issued one after the other, blocks in increasing order.

    Returns:
        Pairs, whole tiles counted. Times 4 · head_dim it is FLOPs of one slot.
    """
    blocks = block_pairs(q_len, kv_len, tile, causal)
    return makespan(blocks * heads, slots, schedule)


def schedule_of(device: str) -> str:
    """Give the way in which a device hands out the blocks of a fused kernel.

    Args:
        device: "cpu", or any other kind, all of which are accelerators.

    Returns:
        STATIC or LIST, as in `makespan`.
    """
    return STATIC if device == "cpu" else LIST


def causal_share(heads: int, q_len: int, kv_len: int, tile: Tile, slots: int, device: str) -> float:
    """Give what the causal mask leaves of a fused launch: the busiest slot's pairs over those without a mask.

    Args:
        heads: independent heads, batch times query heads.
        q_len: queries.
        kv_len: keys.
        tile: the kernel's tile.
        slots: threads of a CPU, multiprocessors of an accelerator.
        device: as in `schedule_of`.

    Returns:
        The share, whole tiles counted; above the share of pairs that the mask needs, at most 1.
    """
    schedule = schedule_of(device)
    causal, full = (slot_pairs(heads, q_len, kv_len, tile, mask, slots, schedule) for mask in (True, False))
    return causal / full


def waves(items: int, slots: int) -> int:
    """Count the rounds that equal items need.

    Args:
        items: equal pieces of work.
        slots: items that run at a time.

    Returns:
        ceil(items / slots).

    Raises:
        ValueError: a number below 1.
    """
    if items < 1 or slots < 1:
        raise ValueError(f"items and slots must be at least 1, got items={items} and slots={slots}")
    return -(-items // slots)
