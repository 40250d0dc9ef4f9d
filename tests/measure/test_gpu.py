"""On a CUDA or ROCm card: the same rule of the lab, kernels named as the card names them, peaks as predicted."""

import pytest
import torch
from measured_shapes import points_of

from lab.measure.accelerators import resolve
from lab.measure.experiments.registry import EXPERIMENTS
from lab.measure.job import Job
from lab.runs import Point, default_spec

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA or ROCm card here"),
]


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


@pytest.mark.parametrize("name", ["naive", "math"])
@pytest.mark.parametrize("causal", [True, False])
def test_materialising_peaks_are_predicted_within_two_per_cent(name: str, causal: bool) -> None:
    opened = on_the_card("memory", dtype="fp16", causal=causal, lengths=(2048,), implementations=(name,))
    (point,) = points_of("memory", "memory", opened)
    assert point.peak_extra_bytes == pytest.approx(point.predicted_peak_bytes, rel=0.02)


def test_a_fused_kernel_is_named_by_the_card() -> None:
    opened = on_the_card("memory", dtype="fp16", lengths=(1024,), implementations=("sdpa",))
    (point,) = points_of("memory", "memory", opened)
    assert not point.kernel.startswith("_scaled_dot_product")


def test_running_out_of_the_cards_memory_is_a_point(monkeypatch) -> None:
    device = resolve("cuda")
    monkeypatch.setattr(type(device), "free_bytes", lambda self: 2**60)
    length = 2 ** ((device.total_bytes() // 48).bit_length() // 2 + 1)  # two score tensors exceed the card
    opened = on_the_card("memory", dtype="fp16", lengths=(128, length), implementations=("naive",))
    small, large = points_of("memory", "memory", opened)
    assert small.accepted
    assert large.status == "out_of_memory"


def test_decode_streams_its_cache() -> None:
    for point in merged("decode", on_the_card("decode", lengths=(1024,), batches=(1, 16))):
        assert point.status == "refused" or point.accepted
