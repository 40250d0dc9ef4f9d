"""Short calls of a card, replayed from a CUDA graph: what they take when launching them costs next to nothing.

An accelerator's call of less than 50 µs is often over before Python has launched the next one: back to back,
such calls measure the launching. A graph holds the kernels of many calls and launches them at once. The eager
time stays the point's time, since it is what a program that calls the function pays; both are in its measures.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from lab.measure.device import Call, Device
from lab.measure.gate import Gate
from lab.measure.protocol import Protocol, VariantError, calls_in_block, time_variants
from lab.measure.samples import Samples, quartiles

SHORT_S = 50e-6
"""An accelerator's call shorter than this waits for its launch as much as it computes."""
WARM_CALLS = 3  # on a side stream before a capture, as PyTorch's notes on CUDA graphs ask


@dataclass(frozen=True)
class Replay:
    """What a short call takes launched by itself and replayed from a graph.

    Args:
        eager_s: median seconds of one call, launched by itself.
        graph_s: median seconds of one call in a replay; None where there is none.
        reason: why there is none, in words.
    """

    eager_s: float
    graph_s: float | None = None
    reason: str | None = None

    @property
    def measures(self) -> dict[str, float]:
        """The two times, for the point."""
        graph = {} if self.graph_s is None else {"graph_s": self.graph_s}
        return {"eager_s": self.eager_s, **graph}

    @property
    def words(self) -> str:
        """The two times, or what is missing, as one sentence for the point's warnings."""
        eager = f"shorter than {SHORT_S * 1e6:.0f} µs: {self.eager_s * 1e6:.3g} µs a call launched by itself"
        if self.graph_s is None:
            return f"{eager}, launching included; not replayed from a CUDA graph: {self.reason}"
        return f"{eager}, {self.graph_s * 1e6:.3g} µs replayed from a CUDA graph"


def replays(
    device: Device,
    variants: Mapping[str, Call],
    samples: Mapping[str, Samples],
    protocol: Protocol,
    gate: Gate,
    turns: int = 1,
) -> dict[str, Replay]:
    """Time those variants from graphs, against each other, that are too short to be timed call by call.

    Args:
        device: where they run; the CPU launches nothing, so there no call is short.
        variants: the calls, by name.
        samples: what timing them call by call gave.
        protocol: the numbers of the protocol.
        gate: what tells a throttled card.
        turns: sets of inputs that a call uses in turn: a graph holds a multiple of them, so that a replay
            visits every set and no cache holds the inputs.

    Returns:
        What was found of each short variant, by name.
    """
    medians = {name: quartiles(samples[name].seconds)[1] for name in variants}
    short = {name: median for name, median in medians.items() if median < SHORT_S}
    if device.kind == "cpu":
        return {}
    if device.kind != "cuda":
        gap = f"{device.kind} is not captured here"
        return {name: Replay(eager_s, reason=gap) for name, eager_s in short.items()}
    found: dict[str, Replay] = {}
    graphs: dict[str, Call] = {}
    calls: dict[str, int] = {}
    for name, eager_s in short.items():
        calls[name] = turns * -(-calls_in_block(device, eager_s) // turns)
        try:
            graphs[name] = capture(device, variants[name], calls[name])
        except RuntimeError as error:
            found[name] = Replay(eager_s, reason=_first_line(error))
    try:
        timed = time_variants(device, graphs, protocol, gate) if graphs else {}
    except VariantError as failed:
        reason = _first_line(failed.__cause__ or failed)
        return found | {name: Replay(short[name], reason=reason) for name in graphs}
    for name, seen in timed.items():
        found[name] = Replay(short[name], quartiles(seen.seconds)[1] / calls[name])
    return found


def capture(device: Device, call: Call, calls: int) -> Call:
    """Capture calls into one CUDA graph.

    Args:
        device: the card.
        call: what to capture.
        calls: how often, one after the other.

    Returns:
        A function that replays them all; the graph and its memory live as long as it does.

    Raises:
        RuntimeError: something in the call cannot be captured, such as a wait for the card.

    Source: PyTorch's notes "CUDA semantics", section CUDA Graphs: warm up on a side stream, then capture.
    """
    here = device.torch_device
    side = torch.cuda.Stream(here)
    side.wait_stream(torch.cuda.current_stream(here))
    with torch.cuda.stream(side):
        for _ in range(WARM_CALLS):
            call()
    torch.cuda.current_stream(here).wait_stream(side)
    device.synchronise()
    graph, pool, current = (
        torch.cuda.CUDAGraph(),
        torch.cuda.graph_pool_handle(),
        torch.cuda.current_stream(here),
    )
    try:
        with torch.cuda.graph(graph, pool=pool):
            for _ in range(calls):
                call()
    except RuntimeError as error:
        _clean_up(device.index, pool, current)
        raise error.__context__ or error from None  # what failed first, and not the end of the capture
    replay: Call = graph.replay
    return replay


def _clean_up(index: int, pool: Any, current: Any) -> None:
    """Undo what PyTorch leaves behind a failed capture, before 2.13 at least.

    The capture's stream stays the current one, and the allocator believes that a capture is under way: it then
    gives no memory back, and stops with an internal error when asked to.

    Source: pytorch/pytorch, pull request 180395.
    """
    torch.cuda.set_stream(current)
    with contextlib.suppress(RuntimeError, AttributeError):  # a PyTorch that has done so itself refuses
        torch._C._cuda_endAllocateToPool(index, pool)


def _first_line(error: BaseException) -> str:
    said = str(error).strip().splitlines()
    return said[0] if said else type(error).__name__
