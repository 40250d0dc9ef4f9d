"""A double of a CUDA card: real CPU arithmetic, with a card's memory, clock, kernels, refusals and driver.

`Card` stands for `torch.cuda`. While its modes are active, every operator that makes or changes a tensor counts
as a launched kernel: it moves a simulated clock, is named as a card would name it, and takes memory from a card
of limited size. No figure here was measured on a card, and none is claimed to be.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from kernel_modes import Dispatch, Launches
from profiler_double import Profile
from torch.multiprocessing.reductions import StorageWeakRef

from lab.measure import accelerators
from lab.measure.accelerators import Cuda, Xpu

OUT_OF_MEMORY = (
    "CUDA out of memory. Tried to allocate {tried} bytes. GPU 0 has a total capacity of {total} bytes."
)


class Event:
    """An event of the card: it keeps the simulated clock."""

    def __init__(self, card: Card) -> None:
        self._card = card

    def record(self) -> None:
        self.at_s = self._card.clock_s

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, other: Event) -> float:
        return (other.at_s - self.at_s) * 1e3


class Graph:
    """A captured graph: a replay costs one launch and the kernels."""

    def __init__(self, card: Card) -> None:
        self._card = card
        self.kernels = 0

    def replay(self) -> None:
        self._card.clock_s += self._card.launch_s + self.kernels * self._card.kernel_s


class Stream:
    """A stream: nothing here runs beside anything."""

    def wait_stream(self, other: Stream) -> None:
        pass


class Card:
    """Stands for `torch.cuda`; what it lacks is looked up in the real module.

    Args:
        memory_bytes: the card's memory.
        refuses: reasons by backend, for kernels this card does not have.
    """

    def __init__(self, memory_bytes: int = 2**30, refuses: dict[str, str] | None = None) -> None:
        self.memory_bytes = memory_bytes
        self.refuses = refuses or {}
        self.told_free_bytes: int | None = None  # where the driver is wrong about it
        self.pages = False  # the driver moves memory to the system, as Windows' does
        self.uncapturable: str | None = None
        self.launch_s, self.kernel_s, self.clock_s = 10e-6, 4e-6, 0.0
        self.capability = (8, 0)
        self.recording: list[str] | None = None
        self.running: str | None = None
        self.current: Any = None
        self.emptied = 0
        self.graphs: list[Graph] = []
        self.pools: list[tuple[int, int]] = []  # of captures that the allocator believes under way
        self._stream = Stream()
        self._capturing: Graph | None = None
        self._alive: list[tuple[StorageWeakRef, int]] = []
        self._peak = self._most = 0

    def __getattr__(self, name: str) -> Any:
        if name == "real":
            raise AttributeError(name)
        return getattr(self.real, name)

    # devices
    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 2

    def current_device(self) -> int:
        return 0

    def set_device(self, device: Any) -> None:
        self.current = device

    def synchronize(self, device: Any = None) -> None:
        pass

    def get_device_name(self, device: Any) -> str:
        return "A card"

    def get_device_capability(self, device: Any) -> tuple[int, int]:
        return self.capability

    def get_device_properties(self, device: Any) -> SimpleNamespace:
        major, minor = self.capability
        return SimpleNamespace(
            total_memory=self.memory_bytes,
            L2_cache_size=2**16,
            major=major,
            minor=minor,
            multi_processor_count=34,
            uuid="0123",
            gcnArchName="gfx942",
        )

    # memory
    def memory_allocated(self, device: Any = None) -> int:
        self._alive = [(ref, size) for ref, size in self._alive if not ref.expired()]
        return sum(size for _, size in self._alive)

    def take(self, tensor: torch.Tensor) -> None:
        """Count a tensor whose memory is new; refuse it where the card is full."""
        storage = tensor.untyped_storage()
        ref = StorageWeakRef(storage)
        if any(ref.cdata == other.cdata and not other.expired() for other, _ in self._alive):
            return
        held = self.memory_allocated()
        if held + storage.nbytes() > self.memory_bytes and not self.pages:
            said = OUT_OF_MEMORY.format(tried=storage.nbytes(), total=self.memory_bytes)
            raise torch.OutOfMemoryError(said)
        self._alive.append((ref, storage.nbytes()))
        self._peak = max(self._peak, held + storage.nbytes())
        self._most = max(self._most, self._peak)

    def memory_reserved(self, device: Any) -> int:
        return self.memory_allocated()

    def max_memory_allocated(self, device: Any) -> int:
        return self._peak

    def max_memory_reserved(self, device: Any) -> int:
        return self._most

    def reset_peak_memory_stats(self, device: Any) -> None:
        self._peak = self._most = self.memory_allocated()

    def empty_cache(self) -> None:
        if self.pools:
            raise RuntimeError("captures_underway.empty() INTERNAL ASSERT FAILED")
        self.emptied += 1

    def mem_get_info(self, device: Any) -> tuple[int, int]:
        free = self.memory_bytes - self.memory_allocated()
        return free if self.told_free_bytes is None else self.told_free_bytes, self.memory_bytes

    # kernels
    def launch(self, kernel: str) -> None:
        """Run a kernel: named while somebody watches, kept while a graph is captured, timed otherwise."""
        if self.recording is not None:
            self.recording.append(kernel)
        if self._capturing is not None:
            if self.uncapturable:
                raise RuntimeError(self.uncapturable)
            self._capturing.kernels += 1
        else:
            self.clock_s += max(self.launch_s, self.kernel_s)

    def Event(self, enable_timing: bool) -> Event:
        assert enable_timing
        return Event(self)

    def Stream(self, device: Any = None) -> Stream:
        return Stream()

    def current_stream(self, device: Any = None) -> Stream:
        return self._stream

    def set_stream(self, stream: Stream) -> None:
        self._stream = stream

    def graph_pool_handle(self) -> tuple[int, int]:
        return 0, len(self.graphs) + 1

    def end_pool(self, index: int, pool: tuple[int, int]) -> None:
        self.pools.remove(pool)

    def stream(self, stream: Stream) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext()

    def CUDAGraph(self) -> Graph:
        return Graph(self)

    @contextlib.contextmanager
    def graph(self, graph: Graph, pool: tuple[int, int]) -> Iterator[None]:
        before, self._stream = self._stream, Stream()
        self._capturing = graph
        self.pools.append(pool)
        try:
            yield
        except RuntimeError as error:  # as PyTorch before 2.13 leaves it: see lab/measure/graphs.py
            raise RuntimeError("CUDA error: operation failed due to a previous error") from error
        finally:
            self._capturing = None
        self._stream = before
        self.pools.remove(pool)
        self.graphs.append(graph)

    @contextlib.contextmanager
    def active(self) -> Iterator[Card]:
        """Make every operator of this thread one of the card."""
        with Dispatch(self), Launches(self):
            yield self


class CardDevice(Cuda):
    """The lab's CUDA device, whose tensors lie on the CPU; its blocks are short, the clock is exact."""

    shortest_block_s = 1e-4

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self.torch_device = torch.device("cpu")


class XpuDevice(Xpu):
    """The lab's XPU device on the same terms."""

    shortest_block_s = 1e-4

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self.torch_device = torch.device("cpu")


def install(monkeypatch: pytest.MonkeyPatch, card: Card, kind: str = "cuda") -> Card:
    """Put a card in the place of `torch.cuda` or `torch.xpu`, and its profiler in that of PyTorch's.

    Args:
        monkeypatch: pytest's.
        card: the double.
        kind: "cuda" or "xpu".

    Returns:
        The card.
    """
    real = torch.autograd.profiler.profile
    card.real = getattr(torch, kind)
    monkeypatch.setattr(torch, kind, card)
    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", card.end_pool, raising=False)
    monkeypatch.setitem(accelerators.KINDS, "cuda", CardDevice)
    monkeypatch.setitem(accelerators.KINDS, "xpu", XpuDevice)
    monkeypatch.setattr(torch.autograd.profiler, "profile", lambda **options: Profile(card, real, options))
    monkeypatch.setattr(accelerators, "nvidia_driver", lambda: None)
    return card
