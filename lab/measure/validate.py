"""Predictions against measurements on this machine: a calibration, then a grid of calls it has never seen.

Runs in a child process (`python -m lab.measure.validate`): one JSON line with the grid on stdin, one JSON
object a line on stdout. A cell counts only when its output matches the float64 reference and the kernel that
was asked for is the one that ran.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from lab.cost.calibration import Calibration
from lab.cost.calls import AttentionCall
from lab.cost.prediction import predict_attention
from lab.measure import accuracy, allocator, kernels
from lab.measure.accelerators import resolve
from lab.measure.calibrate import calibrate
from lab.measure.cells import Inputs, copies_for, in_turn
from lab.measure.device import DTYPES, Call, Device
from lab.measure.gate import Gate, gate_for
from lab.measure.implementations import IMPLEMENTATIONS
from lab.measure.memory import guard
from lab.measure.protocol import Protocol, time_variants
from lab.measure.quiet import Quiet
from lab.measure.samples import Samples

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Grid:
    """The cells of a validation.

    Args:
        device: "auto", "cpu", "cuda" or a numbered one.
        dtypes: of the inputs.
        lengths: T of the prefill cells.
        implementations: what is predicted and measured.
        decode: (batch, T) of the decode cells, causal or not being the same there.
        heads: query and key/value heads.
        head_dim: width of a head.
        rounds: timed rounds.
        threads: CPU threads; None for all.
        patience_s: seconds for waiting until the machine is quiet and for measuring disturbed cells again.
    """

    device: str = "auto"
    dtypes: tuple[str, ...] = ("fp32", "bf16")
    lengths: tuple[int, ...] = (256, 512, 1024, 2048, 4096)
    implementations: tuple[str, ...] = ("naive", "naive_inplace", "math", "flash")
    decode: tuple[tuple[int, int], ...] = ((1, 128), (1, 1024), (1, 16384), (16, 1024))
    heads: int = 12
    head_dim: int = 64
    rounds: int = 9
    threads: int | None = None
    patience_s: float = 120.0

    def __post_init__(self) -> None:
        """Check the names; sizes are checked where they are used."""
        for name in self.dtypes:
            if name not in DTYPES:
                raise ValueError(f"dtypes must be among {', '.join(DTYPES)}, got {name!r}")
        for name in self.implementations:
            if name not in IMPLEMENTATIONS or IMPLEMENTATIONS[name].cost_name is None:
                known = [name for name, entry in IMPLEMENTATIONS.items() if entry.cost_name]
                raise ValueError(f"implementations must be among {', '.join(known)}, got {name!r}")

    def calls(self, dtype: str, device_kind: str) -> list[tuple[str, list[AttentionCall]]]:
        """List the shapes of one dtype, each with its masks: they are timed against each other."""
        make = partial(
            AttentionCall,
            heads=self.heads,
            kv_heads=self.heads,
            head_dim=self.head_dim,
            dtype=dtype,
            threads=torch.get_num_threads(),
            device=device_kind,
        )
        prefill = [
            ("prefill", [make(batch=1, q_len=n, kv_len=n, causal=mask) for mask in (False, True)])
            for n in self.lengths
        ]
        decode = [
            ("decode", [make(batch=batch, q_len=1, kv_len=n, causal=False, cold=True)])
            for batch, n in self.decode
        ]
        return prefill + decode


def run(grid: Grid, emit: Callable[[Mapping[str, Any]], None]) -> None:
    """Calibrate, then predict and measure every cell.

    Args:
        grid: the cells.
        emit: takes events: "progress" (what), "calibration" (calibration), "cell" (its fields).
    """
    device = resolve(grid.device)
    if grid.threads is not None:
        torch.set_num_threads(grid.threads)
    allocator.keep_heap()
    torch.randn(256, 256) @ torch.randn(256, 256)  # PyTorch's threads must exist before memory is limited
    if device.kind == "cpu":
        allocator.limit_memory(device.free_bytes())
    gate = gate_for(device.kind, torch.get_num_threads())
    found: dict[str, Calibration] = {}

    def tell(what: str) -> None:
        emit({"event": "progress", "what": what})

    quiet = Quiet(grid.patience_s, tell)
    quiet.wait()
    for dtype in sorted(grid.dtypes, key=lambda name: -DTYPES[name].itemsize):  # fp32 first: others use it
        found[dtype] = calibrate(device, dtype, gate, wide=found.get("fp32"), quiet=quiet, tell=tell)
        emit({"event": "calibration", "calibration": found[dtype].to_dict()})
    for dtype in grid.dtypes:
        for kind, calls in grid.calls(dtype, device.kind):
            for cell in _measured(device, found[dtype], grid, kind, calls, gate, quiet, tell):
                emit({"event": "cell", **cell})
            allocator.trim()


def _measured(
    device: Device,
    calibration: Calibration,
    grid: Grid,
    kind: str,
    calls: list[AttentionCall],
    gate: Gate,
    quiet: Quiet,
    tell: Tell,
) -> Iterator[dict[str, Any]]:
    """Time the implementations and masks of one shape against each other and yield a cell for each."""
    shape = f"{kind} {calibration.dtype} batch {calls[0].batch}, T = {calls[0].kv_len}"
    cells: dict[str, dict[str, Any]] = {}
    variants: dict[str, Call] = {}
    with torch.inference_mode():
        inputs = _inputs(calls[0], device)
        sets = _sets(calls[0], device, inputs)
        for call in calls:
            for name in grid.implementations:
                variant = f"{name} {'causal' if call.causal else 'full'}"
                cells[variant] = _cell(kind, name, call)
                attempt = partial(IMPLEMENTATIONS[name].function, *inputs, causal=call.causal)
                tell(f"{shape}: {variant}, checking")
                cells[variant]["fault"] = _fault(name, call, device, attempt, inputs)
                if cells[variant]["fault"] is None:
                    variants[variant] = in_turn(name, call, sets)
        samples = _samples(device, variants, grid, gate, quiet, lambda what: tell(f"{shape}: {what}"))
    for variant, cell in cells.items():
        if variant in samples:
            timing = samples[variant].timing()
            cell |= {"measured_s": timing.median_s, "q1_s": timing.q1_s, "q3_s": timing.q3_s}
            cell["noise"] = samples[variant].noise
            cell["predicted_s"] = _predicted(cell["implementation"], cell["causal"], calls[0], calibration)
        yield cell


def _samples(
    device: Device,
    variants: Mapping[str, Call],
    grid: Grid,
    gate: Gate,
    quiet: Quiet,
    tell: Tell,
) -> dict[str, Samples]:
    """Time variants against each other; those that a busy machine disturbed again, while patience lasts."""
    samples: dict[str, Samples] = {}
    remaining = dict(variants)
    while remaining:
        waited = quiet.wait()
        start = time.perf_counter()
        samples |= time_variants(device, remaining, Protocol(rounds=grid.rounds), gate, tell)
        remaining = {name: call for name, call in remaining.items() if samples[name].noise is not None}
        if remaining:
            quiet.left_s -= time.perf_counter() - start
        if quiet.left_s <= 0 or not waited:
            break
    return samples


def _cell(kind: str, implementation: str, call: AttentionCall) -> dict[str, Any]:
    names = ("batch", "heads", "q_len", "kv_len", "head_dim", "dtype", "causal")
    return {"kind": kind, "implementation": implementation, **{name: getattr(call, name) for name in names}}


def _inputs(call: AttentionCall, device: Device) -> tuple[Tensor, Tensor, Tensor]:
    """Draw Q, K and V from a fixed seed in the measured dtype."""
    generator = torch.Generator().manual_seed(0)
    query = (call.batch, call.heads, call.q_len, call.head_dim)
    key = (call.batch, call.kv_heads, call.kv_len, call.head_dim)
    drawn = (torch.randn(shape, generator=generator) for shape in (query, key, key))
    q, k, v = (tensor.to(device.torch_device, DTYPES[call.dtype]) for tensor in drawn)
    return q, k, v


def _sets(call: AttentionCall, device: Device, inputs: Inputs) -> list[Inputs]:
    """Give what takes turns: of a cold call as many copies as no cache holds, else the inputs alone."""
    copies = copies_for(device, call) if call.cold else 1
    return [inputs, *((q.clone(), k.clone(), v.clone()) for q, k, v in [inputs] * (copies - 1))]


def _fault(
    name: str,
    call: AttentionCall,
    device: Device,
    attempt: Callable[[], Tensor],
    inputs: tuple[Tensor, Tensor, Tensor],
) -> str | None:
    """Say why a cell cannot count: no memory, refused, another kernel, a wrong answer; None when it can."""
    need = guard(name, call, device, warm_heap=True)
    if not need.fits:
        return need.reason
    output, refused = kernels.attempt(attempt)
    if refused is not None:
        return refused
    _, seen = kernels.observe(attempt, device.kind)
    other = kernels.mismatch(name, seen)
    if other is not None:
        return other
    return accuracy.check(output, accuracy.truth(*inputs, causal=call.causal)).fault


def _predicted(implementation: str, causal: bool, call: AttentionCall, calibration: Calibration) -> float:
    names = ("batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim")
    shape = {name: getattr(call, name) for name in names}
    return predict_attention(implementation, calibration, **shape, causal=causal, cold=call.cold).seconds


def grid_from_json(text: str) -> Grid:
    """Read a grid from one JSON line.

    Raises:
        ValueError: unknown fields or values.
    """
    values = json.loads(text)
    unknown = set(values) - set(asdict(Grid()))
    if unknown:
        raise ValueError(f"a grid has no {', '.join(sorted(unknown))}")
    lists = {
        name: tuple(tuple(item) if isinstance(item, list) else item for item in value)
        for name, value in values.items()
        if isinstance(value, list)
    }
    return Grid(**{**values, **lists})


def main() -> int:
    """Run the grid on stdin and print its events, or why it was refused.

    Returns:
        The exit code: 0, or 3 for a grid that cannot be.
    """

    def emit(event: Mapping[str, Any]) -> None:
        print(json.dumps(event), flush=True)

    try:
        run(grid_from_json(sys.stdin.readline()), emit)
    except ValueError as error:
        emit({"event": "error", "message": str(error)})
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
