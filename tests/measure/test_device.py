"""Devices: the CPU for real, accelerators by a double of PyTorch's module, absent ones refused in words."""

import getpass
import json
import os
import platform
import sys
from types import SimpleNamespace

import pytest
import torch
from cuda_double import Card, CardDevice, install

from lab.measure import accelerators, host
from lab.measure.accelerators import KINDS, Accelerator, Cuda, Mps, Xpu, others, resolve
from lab.measure.attention import float64_device
from lab.measure.clocks import clocks_of
from lab.measure.device import DTYPES, Device
from lab.measure.job import open_job
from lab.runs import default_spec


@pytest.fixture
def card(monkeypatch) -> Card:
    clocks_of.cache_clear()
    monkeypatch.setitem(sys.modules, "pynvml", None)  # not installed
    card = install(monkeypatch, Card(memory_bytes=1000))
    monkeypatch.setattr(accelerators, "nvidia_driver", lambda: "555.1")
    yield card
    clocks_of.cache_clear()


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
    assert isinstance(resolve("auto"), Cuda)
    assert resolve("cuda:1").index == 1
    assert Cuda(1).torch_device == torch.device("cuda", 1)
    with pytest.raises(ValueError, match="this machine has 2 of that kind"):
        resolve("cuda:2")


def test_an_accelerators_peak_is_the_allocators_less_what_was_alive(card) -> None:
    def call() -> torch.Tensor:
        first = torch.zeros(400, dtype=torch.uint8)
        return first[:100].clone()

    with card.active():
        alive = torch.zeros(100, dtype=torch.uint8)
        torch.zeros(800, dtype=torch.uint8)  # an older peak must not count
        assert CardDevice().peak_extra_bytes(call) == 500
        assert alive.nbytes == card.memory_allocated()


def test_the_card_asked_for_is_the_one_that_events_go_to(monkeypatch, card) -> None:
    monkeypatch.setitem(KINDS, "cuda", Cuda)
    open_job(default_spec("memory", device="cuda:1"))
    assert card.current == torch.device("cuda", 1)


def test_an_accelerator_is_timed_by_its_own_clock(card) -> None:
    with card.active():
        assert CardDevice().time_block(lambda: torch.ones(1), 4) == pytest.approx(card.launch_s)


def test_free_memory_counts_what_the_allocator_keeps_unused(monkeypatch, card) -> None:
    monkeypatch.setattr(card, "memory_reserved", lambda device: 150, raising=False)
    with card.active():
        alive = torch.zeros(100, dtype=torch.uint8)
        assert CardDevice().free_bytes() == 900 + 150 - alive.nbytes


def test_a_peak_above_the_cards_memory_is_oversubscription(card) -> None:
    card.pages = True
    with card.active():
        assert not CardDevice().oversubscribed()
        torch.zeros(1001, dtype=torch.uint8)
        assert CardDevice().oversubscribed()
        CardDevice().release()
    assert card.emptied == 1


def test_a_card_is_known_by_name_driver_and_capability(card) -> None:
    card.capability = (7, 5)
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


@pytest.mark.parametrize("able", [True, False])
def test_float64_is_computed_on_the_cpu_where_the_device_has_none(monkeypatch, able) -> None:
    monkeypatch.setattr(
        torch, "xpu", SimpleNamespace(get_device_properties=lambda device: SimpleNamespace(has_fp64=able))
    )
    here, cpu = torch.device("xpu", 0), torch.device("cpu")
    assert float64_device(here) == (here if able else cpu)
    assert ("fp64" in Xpu().dtypes()) == able
    assert float64_device(torch.device("mps", 0)) == cpu
    assert float64_device(torch.device("cuda", 1)) == torch.device("cuda", 1)


def test_every_other_kind_is_said_to_be_here_or_not_and_with_which_gaps(monkeypatch) -> None:
    monkeypatch.setattr(accelerators, "count", lambda kind: int(kind == "xpu"))
    said = others("cpu")
    assert list(said) == ["cuda_device", "xpu_device", "mps_device"]
    assert said["cuda_device"].startswith("not here: ")
    assert said["xpu_device"].startswith("1 here; measured with gaps: driver")
    assert all(gap in said["mps_device"] for gap in Mps.gaps)


def test_a_driver_that_does_not_answer_is_unknown(monkeypatch) -> None:
    def absent(*arguments, **options):
        raise FileNotFoundError

    monkeypatch.setattr(accelerators.subprocess, "run", absent)
    assert accelerators.nvidia_driver() is None
