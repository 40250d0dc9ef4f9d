"""Makes the helper modules beside these tests importable, and experiments quick where only the flow is tested."""

import math
import sys
from pathlib import Path

import pytest
import torch

from lab.measure import cases, ceilings, protocol
from lab.measure.device import Device
from lab.measure.experiments import first_call, windowed
from lab.measure.gate import Gate

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def sooner(monkeypatch):
    """The flow is tested here, not the times: short warm-ups and blocks, a small cache, no gate, one thread."""
    monkeypatch.setattr(Device, "shortest_block_s", 0.0)
    monkeypatch.setattr(Device, "last_cache_bytes", lambda self: 2**16)
    for module in (cases, first_call, ceilings):
        monkeypatch.setattr(module, "gate_for", lambda kind, threads: Gate())
    monkeypatch.setattr(protocol, "SETTLED", math.inf)
    monkeypatch.setattr(ceilings, "LONGEST_PROBE_S", 0.0)
    monkeypatch.setattr(windowed, "WINDOWS", (16, 1024))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
