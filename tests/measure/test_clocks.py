"""Clocks of a card: what NVML answers in words, what it does not is a gap, and the gate follows both."""

import sys

import pytest
import torch
from cuda_double import Card, install
from nvml_double import Nvml, NVMLError

from lab.measure import clocks
from lab.measure.clocks import Clocks, NvmlClocks, ThrottleGate, clocks_of, throttle_gate
from lab.measure.gate import Gate, gate_for


@pytest.fixture(autouse=True)
def afresh(monkeypatch):
    install(monkeypatch, Card())
    clocks_of.cache_clear()
    yield
    clocks_of.cache_clear()


def told(monkeypatch: pytest.MonkeyPatch, nvml: object) -> Clocks:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    return clocks_of("cuda", 0)


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0x000, ()),
        (0x001 | 0x002 | 0x100, ()),  # idle and settings are no throttling
        (0x004, ("power cap",)),
        (0x020 | 0x040, ("heat, by the driver", "heat, by the hardware")),
        (0x008 | 0x080 | 0x002, ("hardware slowdown", "power brake")),
        (0x1000, ("NVML's reason 0x1000",)),
    ],
)
def test_reasons_are_words(monkeypatch, bits, words) -> None:
    assert told(monkeypatch, Nvml(reasons=(bits,))).throttled() == words


def test_the_bits_are_nvmls_own() -> None:
    nvml = pytest.importorskip("pynvml")
    known = {name: value for name, value in vars(nvml).items() if name.startswith("nvmlClocksEventReason")}
    assert known["nvmlClocksEventReasonSwPowerCap"] in clocks.THROTTLING
    for name in ("GpuIdle", "ApplicationsClocksSetting", "DisplayClockSetting"):
        assert known[f"nvmlClocksEventReason{name}"] & clocks.SETTINGS
    every = clocks.SETTINGS | sum(clocks.THROTTLING)
    assert all(value & ~every == 0 for value in known.values())
    for function in (
        "ClockInfo",
        "MaxClockInfo",
        "CurrentClocksEventReasons",
        "EnforcedPowerLimit",
        "Temperature",
    ):
        assert hasattr(nvml, f"nvmlDeviceGet{function}")


def test_a_slice_of_a_card_is_asked_by_its_whole(monkeypatch) -> None:
    assert told(monkeypatch, Nvml(name="MIG-0123")).sm_mhz() == 1900


@pytest.mark.parametrize(
    ("nvml", "gap"),
    [
        (None, clocks.NO_NVML),
        (Nvml(name="GPU-another"), clocks.NOT_FOUND.format(said="Not Found")),
    ],
)
def test_what_cannot_be_read_is_a_gap_and_no_gate(monkeypatch, nvml, gap) -> None:
    silent = told(monkeypatch, nvml)
    assert silent.gaps == (gap,)
    assert (silent.sm_mhz(), silent.throttled(), silent.facts()) == (None, (), {})
    assert type(throttle_gate("cuda")) is Gate


def test_the_real_package_without_a_driver_is_a_gap() -> None:
    nvml = pytest.importorskip("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        said = str(error)
    else:
        pytest.skip("this machine has NVIDIA's driver")
    assert clocks_of("cuda", 0).gaps == (clocks.NOT_FOUND.format(said=said),)


def test_a_question_the_driver_does_not_answer_is_none(monkeypatch) -> None:
    nvml = Nvml()

    def refuse(*arguments: object) -> None:
        raise NVMLError("Not Supported")

    nvml.nvmlDeviceGetClockInfo = refuse
    nvml.nvmlDeviceGetCurrentClocksEventReasons = refuse
    found = told(monkeypatch, nvml)
    facts = found.facts()
    assert (facts["sm_clock_mhz"], facts["temperature_c"], facts["throttled"]) == (None, None, [])
    assert facts["sm_clock_limit_mhz"] == 2100
    assert not found.slow()


def test_slow_is_against_the_best_clock_of_the_process(monkeypatch) -> None:
    found = told(monkeypatch, Nvml(mhz=(300, 2000, 1500, 1499)))
    assert [found.slow() for _ in range(4)] == [False, False, False, True]
    assert clocks_of("cuda", 0) is found


def test_the_gate_of_a_card_watches_its_clocks(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(mhz=(2000,), reasons=(0, 4)))
    gate = gate_for("cuda", 2)
    assert isinstance(gate, ThrottleGate)
    gate.start()
    assert [gate.busy("a"), gate.busy("a")] == [False, True]
    assert gate.cause == "the clock was throttled (power cap)"
    assert "throttling" in gate.describe()


def test_other_devices_and_other_processors_are_not_asked(monkeypatch) -> None:
    assert clocks_of("cpu", 0).facts() == {}
    assert type(throttle_gate("xpu")) is Gate
    monkeypatch.setattr(torch.version, "hip", "6.4")
    card = torch.cuda
    card.clock_rate = lambda index: 0  # PyTorch's word for a clock that amdsmi does not tell
    found = clocks_of("cuda", 0)
    assert found.sm_mhz() is None
    assert not isinstance(found, NvmlClocks)
    clocks_of.cache_clear()

    def absent(index: int) -> int:
        raise ModuleNotFoundError

    card.clock_rate = absent
    assert clocks_of("cuda", 0).gaps == (clocks.NO_AMDSMI,)
