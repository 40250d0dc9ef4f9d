"""Devices: the CPU for real, accelerators by a double of PyTorch's module, absent ones refused in words."""

import getpass
import json
import os
import platform
from types import SimpleNamespace

import pytest
import torch

from lab.measure import accelerators, host
from lab.measure.accelerators import KINDS, Accelerator, Cuda, Mps, resolve
from lab.measure.device import DTYPES, Device
from lab.measure.job import open_job
from lab.runs import default_spec


class Event:
    """Stands for an event of an accelerator: its clock moves one millisecond with every record."""

    now_ms = 0.0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        Event.now_ms += 1.0
        self.at_ms = Event.now_ms

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, other: "Event") -> float:
        return other.at_ms - self.at_ms


class Card:
    """A double of `torch.cuda`: an allocator with a peak, a card of 1,000 bytes."""

    Event = Event

    def __init__(self) -> None:
        self.allocated = self.peak = 100
        self.reserved = self.peak_reserved = 150
        self.emptied = 0

    def set_device(self, device) -> None:
        self.current = device

    def synchronize(self, device=None) -> None:
        pass

    def take(self, size: int) -> None:
        self.allocated += size
        self.peak = max(self.peak, self.allocated)

    def memory_allocated(self, device) -> int:
        return self.allocated

    def memory_reserved(self, device) -> int:
        return self.reserved

    def max_memory_allocated(self, device) -> int:
        return self.peak

    def max_memory_reserved(self, device) -> int:
        return self.peak_reserved

    def reset_peak_memory_stats(self, device) -> None:
        self.peak = self.allocated

    def empty_cache(self) -> None:
        self.emptied += 1

    def mem_get_info(self, device) -> tuple[int, int]:
        return 700, 1000

    def get_device_properties(self, device) -> SimpleNamespace:
        return SimpleNamespace(
            total_memory=1000, L2_cache_size=64, major=7, minor=5, multi_processor_count=34
        )

    def get_device_capability(self, device) -> tuple[int, int]:
        return 7, 5

    def get_device_name(self, device) -> str:
        return "A card"

    def device_count(self) -> int:
        return 2

    def is_available(self) -> bool:
        return True


@pytest.fixture
def card(monkeypatch) -> Card:
    card = Card()
    monkeypatch.setattr(torch, "cuda", card)
    monkeypatch.setattr(accelerators, "nvidia_driver", lambda: "555.1")
    return card


def test_the_cpu_says_what_it_is_and_nothing_of_whose_it_is() -> None:
    text = json.dumps(resolve("cpu").identity(), allow_nan=False)
    assert torch.__version__ in text
    for private in (platform.node(), os.getcwd(), os.path.expanduser("~")):
        assert private not in text
    assert f'"{getpass.getuser()}"' not in text


def test_a_block_is_seconds_per_call() -> None:
    calls = []
    taken_s = Device().time_block(lambda: calls.append(1), 5)
    assert len(calls) == 5
    assert taken_s >= 0


def test_peak_counts_what_is_alive_at_once_and_not_all_that_was() -> None:
    def call() -> torch.Tensor:
        first = torch.ones(1000, dtype=torch.uint8)
        second = first.clone()
        del first
        return second.clone()

    assert Device().peak_extra_bytes(call) == 2000


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tpu", "device must be auto, cpu, cuda, mps or xpu"),
        ("cpu:1", "device is 'cpu:1', but this machine has 1 of that kind, counted from 0"),
        ("xpu:99", "device is 'xpu:99', but"),
    ],
)
def test_devices_that_are_not_there_are_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve(name)


def test_a_cpu_only_build_says_so(monkeypatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(accelerators, "count", lambda kind: 0)
    with pytest.raises(ValueError, match=r"this PyTorch .* is a CPU-only build"):
        resolve("cuda")


def test_auto_takes_the_cpu_where_nothing_else_is(monkeypatch) -> None:
    monkeypatch.setattr(accelerators, "count", lambda kind: int(kind == "cpu"))
    assert type(resolve("auto")) is Device


def test_auto_takes_an_accelerator_where_there_is_one(card) -> None:
    assert type(resolve("auto")) is Cuda
    assert resolve("cuda:1").torch_device == torch.device("cuda", 1)
    with pytest.raises(ValueError, match="this machine has 2 of that kind"):
        resolve("cuda:2")


def test_an_accelerators_peak_is_the_allocators_less_what_was_alive(card) -> None:
    def call() -> None:
        card.take(500)
        card.take(-400)

    card.take(300)
    card.take(-300)  # an older peak must not count
    assert Cuda().peak_extra_bytes(call) == 500


def test_the_card_asked_for_is_the_one_that_events_go_to(card) -> None:
    open_job(default_spec("memory", device="cuda:1"))
    assert card.current == torch.device("cuda", 1)


def test_an_accelerator_is_timed_by_its_own_clock(card) -> None:
    assert Cuda().time_block(lambda: None, 4) == pytest.approx(0.25e-3)


def test_free_memory_counts_what_the_allocator_keeps_unused(card) -> None:
    assert Cuda().free_bytes() == 700 + 150 - 100


def test_a_peak_above_the_cards_memory_is_oversubscription(card) -> None:
    assert not Cuda().oversubscribed()
    card.peak_reserved = 1001
    assert Cuda().oversubscribed()


def test_a_card_is_known_by_name_driver_and_capability(card) -> None:
    identity = Cuda().identity()
    assert (identity["device_kind"], identity["device_name"]) == ("cuda", "A card")
    assert (identity["driver"], identity["compute_capability"], identity["multiprocessors"]) == (
        *("555.1", "7.5"),
        34,
    )
    assert Cuda().default_dtype() == "fp16"
    assert "native from compute capability 8.0" in Cuda().dtype_warning("bf16")


@pytest.mark.parametrize(
    ("flags", "default", "warned"),
    [
        ({"avx2"}, "fp32", {"fp16", "bf16"}),
        ({"avx2", "avx512_bf16"}, "bf16", {"fp16"}),
        ({"amx_bf16", "amx_fp16"}, "bf16", set()),
        (set(), "fp32", set()),  # a system that lists no flags: nothing is claimed
    ],
)
def test_a_cpus_dtypes_follow_its_flags(monkeypatch, flags, default, warned) -> None:
    monkeypatch.setattr(host, "cpu_flags", lambda: frozenset(flags))
    device = Device()
    assert device.default_dtype() == default
    assert {dtype for dtype in DTYPES if device.dtype_warning(dtype)} == warned


@pytest.mark.parametrize("kind", KINDS.values())
def test_every_kind_states_its_gaps_and_has_its_own_block(kind: type[Device]) -> None:
    assert isinstance(kind.gaps, tuple)
    assert 0 < kind.shortest_block_s <= 0.01
    assert issubclass(kind, Accelerator) == (kind.kind in ("cuda", "xpu"))


def test_mps_cannot_tell_a_peak_and_says_so() -> None:
    assert Mps().peak_extra_bytes(lambda: None) is None
    assert any("no peak" in gap for gap in Mps.gaps)
    assert "fp64" not in Mps().dtypes()


def test_a_driver_that_does_not_answer_is_unknown(monkeypatch) -> None:
    def absent(*arguments, **options):
        raise FileNotFoundError

    monkeypatch.setattr(accelerators.subprocess, "run", absent)
    assert accelerators.nvidia_driver() is None
