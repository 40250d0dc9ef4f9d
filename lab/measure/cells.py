"""One cell: its inputs, and what must hold of an implementation before it is timed.

The rule of the lab: a point is accepted only when it matches the float64 reference within a stated tolerance
and names the kernel that ran. So each implementation is first called, checked and watched; only then timed.
"""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lab.cost.calls import AttentionCall
from lab.cost.limits import kernel_limit
from lab.measure import allocator
from lab.measure.accuracy import Truth, check
from lab.measure.device import Call, Device
from lab.measure.implementations import IMPLEMENTATIONS
from lab.measure.job import Job
from lab.measure.kernels import attempt, beyond_limit, failure, is_out_of_memory, mismatch, observe
from lab.measure.memory import guard
from lab.measure.need import input_bytes
from lab.measure.verification import CHANGED, WATCHED_SETS, fingerprint
from lab.runs import Point

Inputs = tuple[Tensor, Tensor, Tensor]

COLD_FACTOR = 4  # rotating inputs cover the last cache so many times
UNKNOWN_CACHE_BYTES = 32 * 2**20
MOST_COPIES = 1024


@dataclass(frozen=True)
class Cell:
    """An implementation that passed: what to call, and what is known of it.

    Args:
        implementation: its name.
        call: the shape.
        run: runs it once.
        found: fields of its point: kernel, error, tolerance, rows.
        backend: the SDPA backend that ran, where one did.
        first_call_s: seconds of the first call.
        warnings: in words.
    """

    implementation: str
    call: AttentionCall
    run: Call
    found: dict[str, Any]
    backend: str | None
    first_call_s: float
    warnings: tuple[str, ...]


def draw_inputs(job: Job, call: AttentionCall, copies: int = 1) -> list[Inputs]:
    """Draw Q, K and V in the measured dtype from the job's seed.

    Args:
        job: device, dtype and seed.
        call: the shape.
        copies: how many sets of the same values, at different places in memory.

    Returns:
        The sets, each (batch, heads, q_len, head_dim) and twice (batch, kv_heads, kv_len, head_dim).
    """

    def empty(heads: int, length: int) -> Tensor:
        size = (call.batch, heads, length, call.head_dim)
        return torch.empty(size, dtype=job.torch_dtype, device=job.device.torch_device)

    first = (
        empty(call.heads, call.q_len),
        empty(call.kv_heads, call.kv_len),
        empty(call.kv_heads, call.kv_len),
    )
    fill(job, [first])
    return [first, *((first[0].clone(), first[1].clone(), first[2].clone()) for _ in range(copies - 1))]


def fill(job: Job, inputs: Sequence[Inputs]) -> None:
    """Write the numbers of the job's seed into sets of inputs, where they are.

    Args:
        job: device and seed.
        inputs: sets, which all get the same numbers.
    """
    generator = torch.Generator(device=job.device.torch_device).manual_seed(job.spec.seed)
    for place, tensor in enumerate(inputs[0]):
        tensor.normal_(generator=generator)
        for others in inputs[1:]:
            others[place].copy_(tensor)


def watched(inputs: Sequence[Inputs]) -> list[Tensor]:
    """List the tensors that are compared before and after calls.

    Args:
        inputs: sets that take turns.
    """
    return [tensor for each in inputs[:WATCHED_SETS] for tensor in each]


def copies_for_cold_cache(job: Job, call: AttentionCall) -> int:
    """Give how many sets of inputs, used in turn, no cache can hold.

    Args:
        job: the device, whose last cache counts.
        call: the shape.

    Returns:
        At least 1.
    """
    return copies_for(job.device, call)


def copies_for(device: Device, call: AttentionCall) -> int:
    """Give how many sets of a call's inputs, used in turn, no cache of a device can hold; at least 1."""
    covered = COLD_FACTOR * (device.last_cache_bytes() or UNKNOWN_CACHE_BYTES)
    return min(MOST_COPIES, -(-covered // input_bytes(call)))


def cache_state(job: Job, covered_bytes: int) -> str:
    """Say whether a cache can hold the inputs from one call to the next.

    Args:
        job: the device, whose last cache counts.
        covered_bytes: of all sets of inputs that take turns.

    Returns:
        "cold" when they cover the last cache several times, else "warm".
    """
    last = job.device.last_cache_bytes() or UNKNOWN_CACHE_BYTES
    return "cold" if covered_bytes >= COLD_FACTOR * last else "warm"


def in_turn(implementation: str, call: AttentionCall, inputs: list[Inputs]) -> Call:
    """Make a call that uses the sets of inputs in turn.

    Args:
        implementation: a name of `IMPLEMENTATIONS`.
        call: the shape.
        inputs: at least one set; the call reads this list, so that emptying it frees the tensors.

    Returns:
        A function of no arguments.
    """
    function = IMPLEMENTATIONS[implementation].function
    turns = itertools.cycle(range(len(inputs)))
    return lambda: function(*inputs[next(turns)], causal=call.causal)


def refuse_unfit(job: Job, implementation: str, call: AttentionCall, copies: int, warm: bool) -> Point | None:
    """Refuse a cell that must not run: too big for the memory, or past a limit of its kernel.

    Args:
        job: where it would run.
        implementation: a name of `IMPLEMENTATIONS`.
        call: the shape.
        copies: sets of inputs alive at a time.
        warm: whether this process keeps freed blocks.

    Returns:
        The refused point, or None when the cell may run.
    """
    need = guard(implementation, call, job.device, copies=copies, warm_heap=warm)
    if not need.fits:
        return job.point(implementation, call, "refused", reason=need.reason, **need.sizes)
    limit = kernel_limit(
        implementation,
        heads=call.heads,
        q_len=call.q_len,
        kv_len=call.kv_len,
        causal=call.causal,
        bias=call.masked and call.q_len != call.kv_len,
        device=job.device.kind,
    )
    return None if limit is None else job.point(implementation, call, "refused", reason=limit.reason)


def examine(
    job: Job, implementation: str, call: AttentionCall, inputs: list[Inputs], expected: Truth
) -> Cell | Point:
    """Call an implementation once, compare it with float64, and watch which kernel runs.

    Args:
        job: where it runs.
        implementation: a name of `IMPLEMENTATIONS`.
        call: the shape.
        inputs: sets of the same values.
        expected: what it must give.

    Returns:
        A cell that may be timed, or the point of one that may not: refused, wrong, crashed or out of memory.
        Inputs that it changed are as before again.
    """
    held = watched(inputs)
    before = fingerprint(held)
    seen = _examine(job, implementation, call, inputs, expected)
    if fingerprint(held) == before:
        return seen
    fill(job, inputs)
    if isinstance(seen, Cell):
        return job.point(implementation, call, "wrong", backend=seen.backend, reason=CHANGED, **seen.found)
    return seen


def _examine(
    job: Job, implementation: str, call: AttentionCall, inputs: list[Inputs], expected: Truth
) -> Cell | Point:
    run = in_turn(implementation, call, inputs)
    try:
        start = time.perf_counter()
        output, refusal = attempt(run)
        job.device.synchronise()
        first_call_s = time.perf_counter() - start
        if refusal is not None:
            return job.point(implementation, call, "refused", reason=refusal)
        accuracy = check(output, expected)
        del output
    except (RuntimeError, MemoryError) as error:
        return out_of_memory(job, implementation, call, error)
    try:
        kernel, backend = observe(run, job.device.kind)
    except Exception as error:
        return failed(job, implementation, call, error)
    silent = beyond_limit(backend, call, job.device.kind)
    if silent is not None:
        return job.point(implementation, call, "refused", reason=silent)
    found: dict[str, Any] = {
        "kernel": kernel,
        "max_abs_error": accuracy.max_abs_error,
        "tolerance": accuracy.tolerance,
        "error_rows": accuracy.rows,
    }
    if accuracy.fault is not None:
        return job.point(implementation, call, "wrong", backend=backend, reason=accuracy.fault, **found)
    said = mismatch(implementation, backend)
    return Cell(implementation, call, run, found, backend, first_call_s, (said,) if said else ())


def out_of_memory(
    job: Job, implementation: str, call: AttentionCall, error: BaseException, during: str | None = None
) -> Point:
    """Record that memory ran out.

    Args:
        job: where it happened.
        implementation: what was running.
        call: the shape.
        error: what was raised.
        during: what needed the memory, where it was not the implementation itself.

    Returns:
        The point.

    Raises:
        BaseException: the error itself, when it is not about memory.
    """
    if not is_out_of_memory(error):
        raise error
    said = str(error).strip().splitlines()
    reason = said[0] if said else "Python ran out of memory"
    reason = f"{during}: {reason}" if during else reason
    error.__traceback__ = None  # it holds the tensors of the failed call
    return job.point(implementation, call, "out_of_memory", reason=reason)


def failed(job: Job, implementation: str, call: AttentionCall, error: BaseException) -> Point:
    """Record that an implementation raised in a later call than its first, which says nothing of the others.

    Args:
        job: where it happened.
        implementation: what was running.
        call: the shape.
        error: what was raised.

    Returns:
        The point.
    """
    status, reason = failure(error)
    error.__traceback__ = None  # it holds the tensors of the failed call
    return job.point(implementation, call, status, reason=reason)


def clean_up(job: Job) -> None:
    """Hand memory back, between two shapes or after running out of it.

    Args:
        job: where it was held.
    """
    gc.collect()
    job.device.release()
    allocator.trim()
