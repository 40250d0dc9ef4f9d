"""What this device reaches at best: a probe of well under a second, taken after the last timed cell.

A roof for the chart, not a calibration: the best of a few blocks of one large matmul in the measured dtype,
and of one copy too large for any cache.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from lab.measure.cells import COLD_FACTOR, UNKNOWN_CACHE_BYTES
from lab.measure.device import Call
from lab.measure.gate import gate_for
from lab.measure.job import Job

BLOCKS = 5
LONGEST_PROBE_S = 0.3  # of one of the two
SMALLEST_MATMUL = 256
LARGEST_MATMUL = {"cpu": 1024, "accelerator": 4096}  # enough to fill each
LARGEST_COPY_BYTES = 2**30


def probe(job: Job) -> dict[str, Any]:
    """Measure the matmul rate in the job's dtype and the copy bandwidth.

    Args:
        job: device and dtype.

    Returns:
        "flops_per_s"; "copy_bytes_per_s", bytes read and written both counted; "how" in words.
    """
    gate = gate_for(job.device.kind, job.threads)
    gate.start()
    size, matmul_s = matmul_seconds(job)
    cached = job.device.last_cache_bytes() or UNKNOWN_CACHE_BYTES
    copied = min(COLD_FACTOR * cached // 2, LARGEST_COPY_BYTES)
    source = torch.ones(copied, dtype=torch.uint8, device=job.device.torch_device)
    target = torch.empty_like(source)
    copy_s = best(job, lambda: target.copy_(source))
    busy = "; the machine was busy, so both are too low" if gate.busy("probe") else ""
    return {
        "flops_per_s": 2 * size**3 / matmul_s,
        "copy_bytes_per_s": 2 * copied / copy_s,
        "how": (
            f"best of up to {BLOCKS} blocks: {job.dtype} matmul of {size} x {size}, copy of "
            f"{copied / 2**20:.0f} MiB, {job.threads} threads{busy}"
        ),
    }


def matmul_seconds(job: Job) -> tuple[int, float]:
    """Time a square matmul, of a size this device finishes soon even in a type it is bad at.

    Args:
        job: device and dtype.

    Returns:
        The size of the square, and the seconds of the best block.
    """
    largest = LARGEST_MATMUL.get(job.device.kind, LARGEST_MATMUL["accelerator"])
    size, taken_s = SMALLEST_MATMUL, 0.0
    while True:
        shape = (size, size)
        a, b = (torch.randn(shape, dtype=job.torch_dtype, device=job.device.torch_device) for _ in range(2))
        product = torch.empty_like(a)
        call = functools.partial(torch.mm, a, b, out=product)
        job.device.time_block(call, 1)
        taken_s = min(job.device.time_block(call, 1) for _ in range(3))
        if size >= largest or taken_s * 8 > LONGEST_PROBE_S / BLOCKS:
            return size, best(job, call)
        size *= 2


def best(job: Job, call: Call) -> float:
    """Give the time of the fastest of a few blocks.

    Args:
        job: the device.
        call: what to time.

    Returns:
        Seconds per call.
    """
    blocks = [job.device.time_block(call, 1) for _ in range(2)]
    calls = max(1, round(job.device.shortest_block_s / blocks[-1]))
    spent_s = sum(blocks)
    while len(blocks) < 2 + BLOCKS and spent_s < LONGEST_PROBE_S:
        blocks.append(job.device.time_block(call, calls))
        spent_s += blocks[-1] * calls
    return min(blocks[1:])
