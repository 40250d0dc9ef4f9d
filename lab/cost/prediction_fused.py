"""The price of a fused kernel: whole tiles on the busiest slot, or a cache streamed by work items."""

from __future__ import annotations

import math
import re

from lab.cost.calibration import Calibration, DecodeRate
from lab.cost.calls import AttentionCall
from lab.cost.prediction_terms import ARITHMETIC, BANDWIDTH, COLD, LAUNCH, Term, with_overhead
from lab.cost.tiles import Tile, cpu_tile, cuda_tile, schedule_of, slot_pairs, waves
from lab.cost.traffic import Operation

PARALLELISM = "parallelism"


def fused_term(implementation: str, step: Operation, call: AttentionCall, calibration: Calibration) -> Term:
    """Price a fused kernel over many queries: whole tiles, on the busiest slot.

    With a measured share of the matmul rate, that is the price. Without one (a data sheet), each tile is
    arithmetic at the full rate plus its keys and values at the slot's part of the bandwidth, one after the
    other: a sheet states no cache bandwidth and a slot that runs one block at a time hides no load.

    Args:
        implementation: "flash" or "efficient".
        step: the fused pass.
        call: the shape.
        calibration: in the dtype of the call.

    Returns:
        The term; its FLOPs are those of all tiles executed.

    Raises:
        ValueError: no tile is known for the device, or the calibration states no slots.

    Source: traffic of a tile: Dao et al., FlashAttention, arXiv:2205.14135, theorem 2 (each block of queries
        reads all its keys and values).
    """
    if calibration.slots is None:
        raise ValueError(f"the calibration of {calibration.device} states no slots to run fused tiles on")
    slots, heads = round(calibration.slots.value), call.batch * call.heads
    tile = fused_tile(implementation, call, calibration)
    shape = (call.q_len, call.kv_len, tile, call.masked)
    busiest = slot_pairs(heads, *shape, slots, schedule_of(call.device))
    flops = 4 * call.head_dim * heads * round(slot_pairs(1, *shape, 1))
    arithmetic = 4 * call.head_dim * busiest * slots / calibration.matmul.value
    share = _fused_share(implementation, tile, calibration)
    moved = step.read_bytes + step.written_bytes
    if share is not None:
        loads, seconds = 0.0, arithmetic / share
    else:
        tile_bytes = 2 * call.element * call.head_dim * busiest * slots / min(tile.q_rows, call.q_len)
        loads = tile_bytes / calibration.bandwidth.at(moved)
        seconds = arithmetic + loads
    limited_by = ARITHMETIC if arithmetic >= loads else BANDWIDTH
    seconds, limited_by = with_overhead(seconds, limited_by, calibration)
    return Term(f"{step.name}, tiles {tile.name}", flops, moved, 0, seconds, limited_by)


def decode_term(implementation: str, call: AttentionCall, calibration: Calibration, splits: int = 1) -> Term:
    """Price a fused kernel with one query per sequence: the cache streamed by few or many work items.

    Args:
        implementation: "flash" or "efficient".
        call: the shape; q_len is 1. A cold one streams from memory where the calibration measured that.
        calibration: in the dtype of the call.
        splits: parts that each head's cache is cut into, each a work item of its own.

    Returns:
        The term: the longest of launch, bytes at the bandwidth, and the rounds of work items one after the
        other. Without a streaming rate (a data sheet) it is the bandwidth alone, a lower bound.
    """
    stored = 2 * call.keys * call.element
    flops = 4 * call.batch * call.heads * call.kv_len * call.head_dim
    warm = calibration.decode.get(implementation)
    rate = calibration.decode.get(f"{implementation}{COLD}", warm) if call.cold else warm
    times = {BANDWIDTH: stored / calibration.bandwidth.at(stored)}
    if rate is not None:
        times = _streaming(rate, stored, call, splits, times[BANDWIDTH])
    if calibration.overhead is not None:
        times[LAUNCH] = max(times.get(LAUNCH, 0.0), calibration.overhead.value)
    limited_by = max(times, key=lambda name: times[name])
    moved = stored + 2 * call.queries * call.element
    return Term("stream the cache", flops, moved, 0, times[limited_by], limited_by)


def merge_term(call: AttentionCall, calibration: Calibration, splits: int) -> Term:
    """Price joining the parts of a split cache: partial outputs and their log-sum-exp, in fp32."""
    parts = call.rows * splits * (call.head_dim + 1)
    moved = 4 * parts + call.queries * call.element
    rate = next(iter(calibration.decode.values()), None)
    launch = calibration.overhead or (rate.launch if rate is not None else None)
    times = {BANDWIDTH: moved / calibration.bandwidth.at(moved), LAUNCH: launch.value if launch else 0.0}
    limited_by = max(times, key=lambda name: times[name])
    return Term("merge the splits", 0, moved, parts, times[limited_by], limited_by)


def fused_tile(implementation: str, call: AttentionCall, calibration: Calibration) -> Tile:
    """Give the tile of a fused kernel on the calibrated device.

    Raises:
        ValueError: a card that is not NVIDIA's, or of unknown compute capability.
    """
    if call.device == "cpu":
        return cpu_tile(call.q_len, call.kv_len)
    capability = calibration.compute_capability
    if capability is None or not re.fullmatch(r"\d+\.\d", capability):
        raise ValueError(
            f"compute_capability of {calibration.device} is {capability!r}: "
            "the tiles of its kernels are not known"
        )
    return cuda_tile(implementation, call.head_dim, capability)


def _fused_share(implementation: str, tile: Tile, calibration: Calibration) -> float | None:
    """Find the share of a tile, or of the calibrated tile nearest in rows, then in keys."""
    measured = {}
    for name, share in calibration.fused.items():
        kernel, _, size = name.partition("/")
        if kernel == implementation:
            rows, _, keys = size.partition("x")
            measured[(int(rows), int(keys))] = share.value
    if not measured:
        return None
    nearest = min(
        measured,
        key=lambda size: (abs(math.log(size[0] / tile.q_rows)), abs(math.log(size[1] / tile.keys))),
    )
    return measured[nearest]


def _streaming(
    rate: DecodeRate, stored: int, call: AttentionCall, splits: int, full_bandwidth_s: float
) -> dict[str, float]:
    """List what a cache stream waits for: many items share the bandwidth, few are slow each by itself."""
    items = call.batch * call.heads * splits
    item_bytes = 2 * call.kv_len * call.head_dim * call.element / splits
    rounds = 1 if rate.slots is None else waves(items, round(rate.slots.value))
    fraction = 1.0 if rate.fraction is None else rate.fraction.value
    times = {BANDWIDTH: full_bandwidth_s / fraction, PARALLELISM: rounds * item_bytes / rate.item.value}
    if rate.launch is not None:
        times[LAUNCH] = rate.launch.value
    return times
