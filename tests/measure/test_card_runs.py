"""Whole experiments on the double of a card: what a card would answer reaches the points, in words.

The arithmetic is the CPU's and real, so errors are checked and peaks counted; times are the double's own clock
and say nothing of any card.
"""

import json
import sys
from types import SimpleNamespace

import pytest
import torch
from cuda_double import Card, CardDevice, XpuDevice, install
from kernel_modes import NO_MASK, TURING
from measured_shapes import SMALL, events_of, job, points_of
from nvml_double import Nvml

from lab.measure import ceilings, clocks, protocol
from lab.measure.accelerators import ROCM_GAPS, Mps
from lab.measure.cells import copies_for_cold_cache
from lab.measure.device import OVERSUBSCRIBED
from lab.measure.environment import environment
from lab.measure.experiments import backends
from lab.measure.experiments.mask import BOOLEAN
from lab.measure.job import Job, open_job
from lab.measure.split_kv import split_kv_fused
from lab.runs import Point, default_spec


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(ceilings, "LONGEST_PROBE_S", 0.0)
    monkeypatch.setattr(protocol.time, "sleep", lambda seconds: None)
    clocks.clocks_of.cache_clear()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the shapes are tiny
    yield
    torch.set_num_threads(threads)
    clocks.clocks_of.cache_clear()


@pytest.fixture
def card(monkeypatch) -> Card:
    monkeypatch.setitem(sys.modules, "pynvml", None)  # not installed
    return install(monkeypatch, Card())


def opened(experiment: str, **changes: object) -> Job:
    return open_job(default_spec(experiment, device="cuda", **{**SMALL, "dtype": "fp32", **changes}))


def parts(card: Card, experiment: str, on: Job, *names: str) -> list[list[Point]]:
    with card.active():
        return [points_of(experiment, name, on) for name in names]


def merged(card: Card, experiment: str, on: Job) -> dict[str, Point]:
    timed, counted = parts(card, experiment, on, "time", "memory")
    memory = {point.key: point for point in counted}
    return {point.implementation: point.merge(memory[point.key]) for point in timed}


def test_every_backend_is_timed_weighed_and_named_by_its_kernel(card) -> None:
    points = merged(card, "scaling", opened("scaling", lengths=(64,)))
    assert list(points) == ["naive", "math", "flash", "efficient", "cudnn"]
    assert all(point.accepted for point in points.values())
    kernels = {name: point.kernel for name, point in points.items()}
    assert kernels["flash"] == "flash_fwd_kernel"
    assert kernels["efficient"].startswith("fmha_cutlassF")
    assert kernels["cudnn"].startswith("cudnn_generated_fort_native_sdpa")
    assert all("gemm" in kernels[name] and "softmax" in kernels[name] for name in ("naive", "math"))
    assert not any("was asked for" in text for point in points.values() for text in point.warnings)
    assert points["naive"].peak_extra_bytes == points["naive"].predicted_peak_bytes


def test_a_short_call_has_its_eager_time_and_that_of_a_graph(card) -> None:
    points = merged(card, "scaling", opened("scaling", lengths=(64,), implementations=("naive", "flash")))
    flash = points["flash"]
    assert flash.timing.median_s == pytest.approx(card.launch_s)
    assert flash.measures["eager_s"] == flash.timing.median_s
    assert card.kernel_s < flash.measures["graph_s"] < card.launch_s
    assert "µs replayed from a CUDA graph" in flash.warnings[0]
    assert points["naive"].timing.median_s > 50e-6
    assert "eager_s" not in points["naive"].measures


def test_what_cannot_be_captured_keeps_its_eager_time(card) -> None:
    card.uncapturable = "operation not permitted when stream is capturing"
    stream = card.current_stream()
    points = merged(card, "scaling", opened("scaling", lengths=(64,), implementations=("flash",)))
    assert card.current_stream() is stream
    assert card.pools == []  # the allocator knows that the capture is over, or gives no memory back
    flash = points["flash"]
    assert flash.accepted
    assert "graph_s" not in flash.measures
    assert f"not replayed from a CUDA graph: {card.uncapturable}" in flash.warnings[0]


def test_running_out_of_memory_is_one_point_and_the_rest_goes_on(card) -> None:
    card.memory_bytes, card.told_free_bytes = 9 * 2**20, 2**40
    shapes = {"lengths": (512, 64, 4096), "implementations": ("naive", "flash")}
    for part in ("memory", "time"):
        (points,) = parts(card, "scaling", opened("scaling", **shapes), part)
        statuses = {(p.implementation, p.kv_len): p.status for p in points}
        assert statuses == {
            **dict.fromkeys([("naive", 64), ("flash", 64), ("flash", 512)], "ok"),
            **dict.fromkeys([("naive", 512), ("naive", 4096), ("flash", 4096)], "out_of_memory"),
        }
        reasons = {(p.implementation, p.kv_len): p.reason for p in points}
        assert reasons["naive", 512].startswith("CUDA out of memory. Tried to allocate 4194304 bytes.")
        assert reasons["flash", 4096].startswith("its float64 reference: CUDA out of memory.")


def test_inputs_that_do_not_fit_are_points_too(card) -> None:
    card.memory_bytes, card.told_free_bytes = 2**10, 2**40
    points = points_of_time(card, lengths=(64, 128), implementations=("flash",))
    assert [point.status for point in points] == ["out_of_memory"] * 2
    assert all(point.reason.startswith("its inputs: CUDA out of memory") for point in points)


def points_of_time(card: Card, **changes: object) -> list[Point]:
    (points,) = parts(card, "scaling", opened("scaling", **changes), "time")
    return points


def test_what_does_not_fit_is_refused_before_it_is_tried(card) -> None:
    card.memory_bytes = 2**20
    (points,) = parts(card, "memory", opened("memory", lengths=(512,), implementations=("naive",)), "memory")
    assert [point.status for point in points] == ["refused"]
    assert points[0].need_bytes > points[0].have_bytes > 0


def test_a_refusal_keeps_pytorchs_reason(card) -> None:
    card.refuses = {"flash": TURING}
    points = {point.implementation: point for point in points_of_time(card, lengths=(64,))}
    assert points["flash"].status == "refused"
    assert points["flash"].reason == (
        f"Flash attention kernel not used because: {TURING} No available kernel. Aborting execution."
    )
    assert points["efficient"].status == "ok"


def test_memory_paged_to_the_system_is_weighed_and_not_timed(card) -> None:
    card.memory_bytes, card.told_free_bytes, card.pages = 2**21, 2**40, True
    for experiment in ("scaling", "causal"):
        points = merged(card, experiment, opened(experiment, lengths=(512,), implementations=("naive",)))
        assert points["naive"].status == "refused"
        assert points["naive"].reason == OVERSUBSCRIBED
        assert points["naive"].timing is None
        assert points["naive"].peak_extra_bytes > card.memory_bytes


@pytest.mark.parametrize(
    ("reasons", "mhz", "said"),
    [
        ((0, 4, 4, 4, 0), (1900,), "3 of 6 blocks discarded: the clock was throttled (power cap)"),
        (
            (0, 1, 2),
            (1900, 1900, 1400, 1900),
            "1 of 4 blocks discarded: the clock was under 75% of the run's best",
        ),
    ],
)
def test_throttled_blocks_are_discarded_and_counted(monkeypatch, card, reasons, mhz, said) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(mhz=mhz, reasons=reasons))
    (naive,) = points_of_time(card, lengths=(64,), implementations=("naive",), quick=False)
    assert naive.warnings == (said,)
    assert naive.status == "ok"
    assert naive.timing.discarded_blocks == int(said[0])


def test_a_clock_that_stays_throttled_makes_its_points_noisy(monkeypatch, card) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(reasons=(4 | 32,)))
    (naive,) = points_of_time(card, lengths=(64,), implementations=("naive",))
    assert naive.status == "noisy"
    assert naive.reason == (
        "3 of 3 blocks were timed while the clock was throttled (power cap, heat, by the driver)"
    )


def test_the_record_holds_the_clocks_or_why_they_are_not_read(monkeypatch, card) -> None:
    said = environment(opened("scaling"))
    assert said["gaps"] == [clocks.NO_NVML]
    assert said["gate"].startswith("not gated")
    clocks.clocks_of.cache_clear()
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(reasons=(4,)))
    said = environment(opened("scaling"))
    assert (said["driver"], said["sm_clock_mhz"], said["power_limit_w"]) == ("555.1", 1900, 165.0)
    assert (said["throttled"], said["gaps"]) == (["power cap"], [])
    assert "throttling for power" in said["gate"]
    json.dumps(said, allow_nan=False)


def test_a_rocm_card_goes_the_same_way_and_says_what_is_missing(monkeypatch, card) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.4")
    card.clock_rate, card.temperature = lambda index: 1700, lambda index: 60
    said = environment(opened("scaling"))
    assert (said["toolkit"], said["architecture"], said["sm_clock_mhz"]) == ("ROCm 6.4", "gfx942", 1700)
    assert said["gaps"] == [clocks.CLOCK_ALONE, *ROCM_GAPS]
    assert "under 75%" in said["gate"]
    (flash,) = points_of_time(card, lengths=(64,), implementations=("flash",))
    assert flash.status == "ok"


def test_decode_reads_every_copy_of_the_cache_in_turn_also_from_a_graph(card) -> None:
    on = opened("decode", batches=(1,), lengths=(128,), implementations=("flash", "sdpa"))
    turns = copies_for_cold_cache(on, on.call(batch=1, q_len=1, kv_len=128))
    assert turns > 1
    points = merged(card, "decode", on)
    assert all(point.accepted and point.measures["graph_s"] > 0 for point in points.values())
    graphs = [graph for graph in card.graphs if graph.kernels]
    assert len(graphs) == 2
    assert [graph.kernels % turns for graph in graphs] == [0, 0], (turns, [g.kernels for g in graphs])


def test_backends_say_which_kernel_ran_or_why_none_did(monkeypatch, card) -> None:
    monkeypatch.setattr(backends, "HEAD_DIMS", (128,))
    names = ("flash", "cudnn", "sdpa")
    (points,) = parts(card, "backends", opened("backends", lengths=(32,), implementations=names), "memory")
    masked = {point.implementation: point for point in points if point.variant == BOOLEAN}
    assert NO_MASK in masked["flash"].reason
    assert "fmha_cutlassF" in masked["sdpa"].kernel  # after the kernels that made the mask
    assert all(point.reason if point.status == "refused" else point.kernel for point in points)
    assert {point.status for point in points} == {"ok", "refused"}


def test_an_xpu_is_measured_with_its_gaps(monkeypatch) -> None:
    card = install(monkeypatch, Card(), "xpu")
    on = job("scaling", XpuDevice(), **{**SMALL, "lengths": (64,), "implementations": ("flash",)})
    flash = merged(card, "scaling", on)["flash"]
    assert flash.accepted
    assert "not replayed from a CUDA graph: xpu is not captured here" in flash.warnings[0]
    assert any("throttling" in gap for gap in environment(on)["gaps"])
    (said,) = [event["text"] for event in events_of("calibrate", "time", on) if event["event"] == "warning"]
    assert said == "xpu is not calibrated: that is done on the CPU and on CUDA cards"
    query, cache = (torch.empty(1, 1, length, 8, device="meta") for length in (1, 4))
    with pytest.raises(RuntimeError, match="no fused kernel on meta is known to give its log-sum-exp"):
        split_kv_fused(query, cache, cache, causal=False, splits=2)


def test_mps_gives_times_and_no_peak(monkeypatch) -> None:
    monkeypatch.setattr(
        torch,
        "mps",
        SimpleNamespace(
            synchronize=lambda: None,
            empty_cache=lambda: None,
            recommended_max_memory=lambda: 2**30,
            driver_allocated_memory=lambda: 2**20,
        ),
    )
    device = Mps()
    device.torch_device, device.shortest_block_s = torch.device("cpu"), 1e-4
    on = job("scaling", device, **{**SMALL, "lengths": (64,), "implementations": ("flash",)})
    timed, counted = points_of("scaling", "time", on)[0], points_of("scaling", "memory", on)[0]
    point = timed.merge(counted)
    assert point.timing.n == 3
    assert point.peak_extra_bytes is None
    assert not point.accepted
    assert any("no peak" in gap for gap in environment(on)["gaps"])


def test_the_ceilings_of_a_card_come_last(card) -> None:
    with card.active():
        events = events_of("scaling", "time", opened("scaling", lengths=(64,), implementations=("flash",)))
    assert [event["event"] for event in events if event["event"] != "progress"][-1] == "ceilings"
    assert isinstance(opened("scaling").device, CardDevice)
