"""Measured peaks equal the predicted ones; the guard refuses what does not fit; a real shortage is survived."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from measured_shapes import draw, job

from lab.measure import allocator
from lab.measure.device import Device
from lab.measure.implementations import IMPLEMENTATIONS
from lab.measure.memory import guard, predicted_peak
from lab.measure.need import WARM_HEAP_FACTOR, input_bytes

ROOT = Path(__file__).parents[2]
MIB = 2**20


class Sized(Device):
    """A CPU with a stated amount of free memory."""

    def __init__(self, free: int | None) -> None:
        super().__init__()
        self.free = free

    def free_bytes(self) -> int | None:
        return self.free


def deviation_bytes(name: str, length: int, dtype: str, causal: bool) -> tuple[int, int]:
    """Measured and predicted peak of GPT-2's heads."""
    call = job(dtype=dtype, causal=causal).call(batch=1, q_len=length, kv_len=length)
    q, k, v = draw((1, 12, 12, length, length, 64), dtype)

    def run() -> torch.Tensor:
        return IMPLEMENTATIONS[name].function(q, k, v, causal=causal)

    run()
    return Device().peak_extra_bytes(run), predicted_peak(name, call)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("length", [512, 1024, pytest.param(2048, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["naive", "naive_inplace", "math", "flash"])
def test_measured_peak_is_the_predicted_one(name: str, length: int, dtype: str, causal: bool) -> None:
    """Within 1 % or 0.12 MiB, the scratch of the library behind 16-bit products."""
    measured, predicted = deviation_bytes(name, length, dtype, causal)
    assert abs(measured - predicted) <= max(0.01 * predicted, 0.12 * MIB)


def test_default_dispatch_is_predicted_by_the_backend_that_ran() -> None:
    call = job().call(batch=1, q_len=64, kv_len=64)
    assert predicted_peak("sdpa", call) is None
    assert predicted_peak("sdpa", call, "math") == predicted_peak("math", call)
    assert predicted_peak("cudnn", call) is None


def test_guard_counts_inputs_and_peak() -> None:
    call = job().call(batch=1, q_len=1024, kv_len=1024)
    need = guard("naive", call, Sized(2**40))
    assert need.need_bytes == input_bytes(call) + predicted_peak("naive", call)
    assert need.have_bytes == int(0.8 * 2**40)
    assert need.fits
    assert not guard("naive", call, Sized(need.need_bytes)).fits  # a fifth is left to everyone else


def test_guard_gives_a_heap_that_keeps_blocks_four_times_the_peak() -> None:
    call = job().call(batch=1, q_len=1024, kv_len=1024)
    cold, warm = (guard("math", call, Sized(2**40), warm_heap=warm) for warm in (False, True))
    assert warm.need_bytes - cold.need_bytes == (WARM_HEAP_FACTOR - 1) * predicted_peak("math", call)


def test_guard_counts_every_copy_of_rotating_inputs() -> None:
    call = job("decode").call(batch=1, q_len=1, kv_len=4096)
    needs = [guard("naive", call, Sized(2**40), copies=copies).need_bytes for copies in (1, 5)]
    assert needs[1] - needs[0] == 4 * input_bytes(call)


def test_guard_lets_pass_what_it_cannot_know() -> None:
    call = job().call(batch=1, q_len=1024, kv_len=1024)
    assert guard("naive", call, Sized(None)).fits


def test_guard_says_need_and_have_in_words() -> None:
    call = job().call(batch=1, q_len=2**15, kv_len=2**15)
    need = guard("naive", call, Sized(10 * 2**30))
    assert not need.fits
    assert need.reason == "needs 98.28 GiB of memory, 8.00 GiB may be taken"


def run_limited(program: str) -> list[dict]:
    """Run the program in a process whose memory is limited; it prints points as JSON lines."""
    if allocator.host.process_data_bytes() is None:
        pytest.skip("this system has no limit on a process's data")
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


LIMITED = """
import sys, torch
from lab.measure import allocator, worker
from lab.measure.events import Events
from lab.measure.experiments.registry import EXPERIMENTS
from lab.measure.job import open_job
from lab.runs import default_spec
spec = default_spec("{experiment}", device="cpu", dtype="fp32", lengths=({lengths}), heads=4, kv_heads=4,
                    implementations=("naive", "flash"), rounds=1)
job = open_job(spec)
worker._start_threads()
with torch.inference_mode():
    torch.randn(300, 300) @ torch.randn(300, 300)
    assert allocator.limit_memory({free})
    EXPERIMENTS[spec.experiment].run(job, "{part}", Events(sys.stdout))
"""


@pytest.mark.parametrize(("experiment", "part"), [("memory", "memory"), ("scaling", "time")])
def test_a_real_shortage_of_memory_is_a_point_and_the_rest_goes_on(experiment: str, part: str) -> None:
    """The guard sees gigabytes free, the limit lets 160 MiB be taken: naive at T = 4,096 needs 520."""
    program = LIMITED.format(experiment=experiment, part=part, lengths="4096, 64", free=200 * MIB)
    points = [event["point"] for event in run_limited(program) if event["event"] == "point"]
    status = {(point["implementation"], point["kv_len"]): point for point in points}
    assert status["naive", 4096]["status"] == "out_of_memory"
    assert "can't allocate memory" in status["naive", 4096]["reason"]
    assert status["naive", 4096]["need_bytes"] is None
    if part == "time":
        assert status["flash", 4096]["timing"]["n"] == 1
    for done in (("naive", 64), ("flash", 64), ("flash", 4096)):
        assert status[done]["status"] in ("ok", "noisy"), status[done]["reason"]


def test_inputs_that_do_not_fit_are_points_too() -> None:
    program = LIMITED.format(experiment="memory", part="memory", lengths=f"{2**18}, 64", free=200 * MIB)
    points = [event["point"] for event in run_limited(program) if event["event"] == "point"]
    large = [point for point in points if point["kv_len"] == 2**18]
    assert {point["implementation"]: point["status"] for point in large} == {
        "naive": "refused",  # 512 GiB of scores
        "flash": "out_of_memory",
    }
