"""On a CUDA or ROCm card: the same rule of the lab, kernels named as the card names them, peaks as predicted.

What the double of a card (`cuda_double.py`) cannot vouch for: that a real profiler, allocator, graph and driver
answer as it does.
"""

import pytest
import torch
from measured_shapes import points_of

from lab.measure import clocks
from lab.measure.accelerators import resolve
from lab.measure.cells import draw_inputs
from lab.measure.environment import environment
from lab.measure.experiments.registry import EXPERIMENTS
from lab.measure.gate import Gate, gate_for
from lab.measure.graphs import SHORT_S, capture
from lab.measure.implementations import IMPLEMENTATIONS
from lab.measure.job import Job
from lab.measure.kernels import FUSED_KERNELS, attempt, observe
from lab.runs import Point, default_spec

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA or ROCm card here"),
]
NVIDIA = pytest.mark.skipif(torch.version.hip is not None, reason="ROCm's kernels have other names")


def on_the_card(experiment: str, **changes: object) -> Job:
    spec = default_spec(experiment, device="cuda", **changes)
    device = resolve("cuda")
    dtype = device.default_dtype() if spec.dtype == "auto" else spec.dtype
    return Job(spec, device, dtype, torch.get_num_threads())


def merged(experiment: str, opened: Job) -> list[Point]:
    timed, counted = (points_of(experiment, part, opened) for part in EXPERIMENTS[experiment].parts)
    by_key = {point.key: point for point in counted}
    return [point.merge(by_key[point.key]) for point in timed]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_every_backend_is_accepted_or_refused_with_a_reason(dtype: str, causal: bool) -> None:
    for point in merged("scaling", on_the_card("scaling", dtype=dtype, causal=causal, lengths=(512, 1024))):
        if point.status == "refused":
            assert point.reason
            assert "Triggered internally" not in point.reason
        else:
            assert point.accepted, point
            assert point.kernel
            assert "[memory]" not in point.kernel
            assert not any("was asked for" in text for text in point.warnings), point


@pytest.mark.parametrize("name", ["naive", "math"])
@pytest.mark.parametrize("causal", [True, False])
def test_materialising_peaks_are_predicted_within_two_per_cent(name: str, causal: bool) -> None:
    opened = on_the_card("memory", dtype="fp16", causal=causal, lengths=(2048,), implementations=(name,))
    (point,) = points_of("memory", "memory", opened)
    assert point.peak_extra_bytes == pytest.approx(point.predicted_peak_bytes, rel=0.02)


@NVIDIA
@pytest.mark.parametrize("name", ["flash", "efficient", "cudnn", "math", "naive"])
def test_kernels_are_named_by_the_card_and_tell_the_backend(name: str) -> None:
    opened = on_the_card("memory", dtype="fp16")
    inputs = draw_inputs(opened, opened.call(batch=1, q_len=512, kv_len=512))[0]

    def call() -> torch.Tensor:
        return IMPLEMENTATIONS[name].function(*inputs, causal=True)

    with torch.inference_mode():
        _, refused = attempt(call)
        if refused:
            pytest.skip(refused)
        kernel, backend = observe(call, "cuda")
    if name in FUSED_KERNELS:
        assert FUSED_KERNELS[name].search(kernel), kernel
    else:
        assert "softmax" in kernel.lower(), kernel
    assert backend == (None if name == "naive" else name)


def test_a_fused_kernel_is_named_by_the_card() -> None:
    opened = on_the_card("memory", dtype="fp16", lengths=(1024,), implementations=("sdpa",))
    (point,) = points_of("memory", "memory", opened)
    assert not point.kernel.startswith("_scaled_dot_product")


def test_running_out_of_the_cards_memory_is_a_point(monkeypatch) -> None:
    device = resolve("cuda")
    monkeypatch.setattr(type(device), "free_bytes", lambda self: 2**60)
    length = 2 ** ((device.total_bytes() // 48).bit_length() // 2 + 1)  # two score tensors exceed the card
    opened = on_the_card("memory", dtype="fp16", lengths=(128, length, 256), implementations=("naive",))
    points = {point.kv_len: point for point in points_of("memory", "memory", opened)}
    assert points[length].status == "out_of_memory"
    assert points[128].accepted
    assert points[256].accepted


def test_decode_streams_its_cache_and_short_calls_are_replayed_from_graphs() -> None:
    opened = on_the_card("decode", lengths=(1024,), batches=(1, 16), implementations=("sdpa", "naive"))
    for point in merged("decode", opened):
        assert point.accepted, point
        assert (point.timing.median_s < SHORT_S) == ("eager_s" in point.measures)
        if "eager_s" in point.measures:
            assert point.measures["graph_s"] > 0, point.warnings


def test_a_replayed_graph_computes_what_the_call_computes() -> None:
    opened = on_the_card("decode", dtype="fp16")
    inputs = draw_inputs(opened, opened.call(batch=1, q_len=1, kv_len=512))[0]
    with torch.inference_mode():
        expected = IMPLEMENTATIONS["sdpa"].function(*inputs, causal=True)
        seen = torch.zeros_like(expected)
        replay = capture(
            opened.device, lambda: seen.copy_(IMPLEMENTATIONS["sdpa"].function(*inputs, causal=True)), 3
        )
        seen.zero_()
        replay()
        opened.device.synchronise()
    assert torch.equal(seen, expected)


def test_a_call_that_waits_for_the_card_cannot_be_captured_and_nothing_else_breaks() -> None:
    device = resolve("cuda")
    with pytest.raises(RuntimeError):
        capture(device, lambda: torch.ones(4, device="cuda").sum().item(), 2)
    assert float(torch.ones(4, device="cuda").sum()) == 4


def test_the_clocks_are_read_or_the_gap_is_stated() -> None:
    opened = on_the_card("scaling")
    said = environment(opened)
    if said.get("sm_clock_mhz") is None:
        assert said["gaps"]
        assert type(gate_for("cuda", 1)) is Gate
        return
    assert 0 < said["sm_clock_mhz"] <= (said.get("sm_clock_limit_mhz") or said["sm_clock_mhz"])
    assert isinstance(gate_for("cuda", 1), clocks.ThrottleGate)


def test_a_block_of_calls_takes_as_long_by_events_as_by_the_hosts_clock() -> None:
    benchmark = pytest.importorskip("torch.utils.benchmark")
    device = resolve("cuda")
    a = torch.randn(4096, 4096, dtype=torch.float16, device="cuda")
    device.time_block(lambda: a @ a, 20)
    by_events_s = min(device.time_block(lambda: a @ a, 20) for _ in range(5))
    timer = benchmark.Timer("a @ a", globals={"a": a})
    by_the_host_s = min(timer.timeit(20).mean for _ in range(5))
    assert by_events_s == pytest.approx(by_the_host_s, rel=0.1)
