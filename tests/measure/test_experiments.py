"""The experiments visit the right cells, and every cell ends as a point: ok, refused, wrong or out of memory."""

import itertools
import json
import math
from dataclasses import replace

import pytest
import torch
from measured_shapes import events_of, job, points_of
from planted import inverted_mask, missing_scale, top_left_mask

from lab.measure import ceilings, cells, parts, protocol
from lab.measure.accuracy import Form
from lab.measure.device import Device
from lab.measure.environment import environment
from lab.measure.experiments.registry import EXPERIMENTS
from lab.measure.implementations import IMPLEMENTATIONS
from lab.measure.job import open_job
from lab.runs import EXPERIMENTS as NAMES
from lab.runs import Point, default_spec
from lab.runs.spec import runnable


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The flow is tested here, not the times: short warm-ups and blocks, a small cache, no gate, one thread."""
    monkeypatch.setattr(Device, "shortest_block_s", 0.0)
    monkeypatch.setattr(Device, "last_cache_bytes", lambda self: 2**16)
    monkeypatch.setattr(parts, "gate_for", lambda kind, threads: parts.Gate())
    monkeypatch.setattr(protocol, "SETTLED", math.inf)
    monkeypatch.setattr(ceilings, "LONGEST_PROBE_S", 0.0)
    monkeypatch.setattr(ceilings, "gate_for", lambda kind, threads: parts.Gate())
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def plant(monkeypatch, name: str, function) -> None:
    monkeypatch.setitem(IMPLEMENTATIONS, name, replace(IMPLEMENTATIONS[name], function=function))


def test_every_experiment_a_job_may_name_exists() -> None:
    assert set(EXPERIMENTS) == set(NAMES)
    assert all(experiment.name == name for name, experiment in EXPERIMENTS.items())


@pytest.mark.parametrize("name", NAMES)
def test_shapes_come_smallest_first(name: str) -> None:
    opened = job(name, lengths=(64, 16, 32), batches=(4, 1))
    calls = EXPERIMENTS[name].calls(opened)
    assert len(calls) == 6
    assert [call.scores for call in calls] == sorted(call.scores for call in calls)
    expected = {1} if name in ("decode", "gqa", "split_kv", "kv_int8") else {16, 32, 64}
    assert {call.q_len for call in calls} == expected


@pytest.mark.parametrize("name", ["scaling", "decode", "selftest"])
def test_time_and_memory_together_make_accepted_points(name: str) -> None:
    opened = job(name, lengths=(32, 16), rounds=3)
    timed, counted = (points_of(name, part, opened) for part in ("time", "memory"))
    assert [point.key for point in timed] == [point.key for point in counted]
    for time_point, memory_point in zip(timed, counted, strict=True):
        assert time_point.timing.n == 3 or name == "selftest"  # whose rounds end early on a slow machine
        assert not time_point.accepted  # no memory yet
        whole = time_point.merge(memory_point)
        assert whole.accepted
        assert whole.kernel
        assert abs(whole.peak_extra_bytes - whole.predicted_peak_bytes) <= 12


def test_the_memory_experiment_needs_its_memory_part_alone() -> None:
    opened = job("memory")
    points = points_of("memory", "memory", opened)
    assert {(point.implementation, point.kv_len) for point in points} == set(
        itertools.product(("naive", "math", "flash"), (16, 32))
    )
    assert all(point.accepted for point in points)
    assert events_of("memory", "time", opened) == [{"event": "plan", "total": 0}]


def test_default_dispatch_is_predicted_once_its_kernel_is_seen() -> None:
    (point,) = points_of("memory", "memory", job("memory", lengths=(300,), implementations=("sdpa",)))
    assert point.predicted_peak_bytes == point.peak_extra_bytes


@pytest.mark.parametrize("part", ["time", "memory"])
@pytest.mark.parametrize("planted", [missing_scale, inverted_mask])
def test_a_planted_fault_is_refused_as_wrong_and_never_timed(monkeypatch, part: str, planted) -> None:
    plant(monkeypatch, "naive", planted)
    points = points_of("scaling", part, job(lengths=(64,), rounds=2))
    status = {point.implementation: point for point in points}
    wrong = status["naive"]
    assert (wrong.status, wrong.timing, wrong.peak_extra_bytes) == ("wrong", None, None)
    if planted is inverted_mask:  # the last query sees nothing at all
        assert wrong.reason == "the output holds NaN or infinity"
        assert wrong.max_abs_error is None
    else:
        assert "rows differ from float64" in wrong.reason
        assert wrong.max_abs_error > wrong.tolerance
    assert {status["math"].status, status["flash"].status} <= {"ok", "noisy"}


def test_a_top_left_mask_is_refused_where_lengths_differ(monkeypatch) -> None:
    plant(monkeypatch, "naive", top_left_mask)
    opened = job()
    call = opened.call(batch=1, q_len=20, kv_len=50)
    inputs = cells.draw_inputs(opened, call)
    expected = cells.Truth(None, cells_reference(inputs), 50, Form.of(inputs[0][0]))
    point = cells.examine(opened, "naive", call, inputs, expected)
    assert isinstance(point, Point)
    assert point.status == "wrong"
    assert isinstance(cells.examine(opened, "flash", call, inputs, expected), cells.Cell)


def cells_reference(inputs: list[cells.Inputs]) -> torch.Tensor:
    from lab.measure.attention import reference

    return reference(*inputs[0], causal=True)


def test_what_does_not_exist_here_is_refused_in_pytorchs_words() -> None:
    points = points_of(
        "scaling", "time", job(lengths=(16,), implementations=("efficient", "naive"), rounds=1)
    )
    refused = next(point for point in points if point.implementation == "efficient")
    assert refused.status == "refused"
    assert refused.reason.startswith("No viable backend")
    assert len(points) == 2


def test_what_does_not_fit_is_refused_before_anything_is_allocated() -> None:
    class Small(Device):
        def free_bytes(self) -> int:
            return 2**20

    points = points_of("scaling", "time", job(lengths=(16, 2**20), device=Small(), rounds=1))
    large = [point for point in points if point.kv_len == 2**20]
    assert [point.status for point in large] == ["refused"] * 3
    assert all(point.need_bytes > point.have_bytes == int(0.8 * 2**20) for point in large)
    assert all(point.status in ("ok", "noisy") for point in points if point.kv_len == 16)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_job_may_name_is_there_to_be_called(name: str) -> None:
    own = {"eager", "quantised"}  # of a model and of a stored cache, made by their experiments
    assert set(runnable(name)) <= {*IMPLEMENTATIONS, *own}
    assert not own & set(runnable(name)) or name in ("model", "flops", "kv_int8")


@pytest.mark.parametrize("name", ["scaling", "causal"])
def test_the_largest_sizes_a_job_may_ask_for_are_refused_in_words(name: str) -> None:
    """Their bytes are more than a run can record, whether or not the system says what is free."""

    class Silent(Device):
        def free_bytes(self) -> None:
            return None

    largest = {"batches": (65_536,), "heads": 4096, "kv_heads": 4096, "head_dim": 4096}
    opened = job(name, lengths=(2**24,), device=Silent(), **largest)
    for point in points_of(name, "memory", opened):
        assert point.status == "refused"
        assert point.reason.endswith("more than any machine can address")
        assert (point.need_bytes, point.predicted_peak_bytes) == (None, None)


def test_a_variant_that_runs_out_of_memory_while_timed_leaves_the_others(monkeypatch) -> None:
    calls = itertools.count()

    def late_shortage(q, k, v, *, causal):
        if next(calls) >= 4:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    plant(monkeypatch, "naive", late_shortage)
    points = points_of("scaling", "time", job(lengths=(16,), rounds=3))
    status = {point.implementation: point.status for point in points}
    assert status.pop("naive") == "out_of_memory"
    assert set(status) == {"math", "flash"}
    assert set(status.values()) <= {"ok", "noisy"}


def test_an_error_that_is_not_about_memory_is_not_hidden(monkeypatch) -> None:
    def fails(*arguments):
        raise RuntimeError("boom")

    monkeypatch.setattr(cells, "check", fails)
    with pytest.raises(RuntimeError, match="boom"):
        points_of("scaling", "time", job(lengths=(16,)))


def test_time_is_withheld_when_the_allocator_used_more_than_the_card_has() -> None:
    class Oversubscribed(Device):
        def oversubscribed(self) -> bool:
            return True

    points = points_of("scaling", "time", job(lengths=(16,), device=Oversubscribed()))
    assert {point.status for point in points} == {"refused"}
    assert all(point.timing is None and "system memory" in point.reason for point in points)
    assert all(point.kernel and point.max_abs_error is not None for point in points)


def test_decode_rotates_through_more_than_the_last_cache() -> None:
    class Cached(Device):
        def last_cache_bytes(self) -> int:
            return 2**20

    opened = job("decode", device=Cached())
    call = opened.call(batch=1, q_len=1, kv_len=64)
    copies = cells.copies_for_cold_cache(opened, call)
    inputs = cells.draw_inputs(opened, call, copies)
    held = sum(tensor.nbytes for tensors in inputs for tensor in tensors)
    assert held >= 4 * 2**20
    assert len({tensors[1].data_ptr() for tensors in inputs}) == copies
    assert all(torch.equal(tensors[1], inputs[0][1]) for tensors in inputs)


def test_rotating_calls_take_the_sets_in_turn(monkeypatch) -> None:
    seen = []
    plant(monkeypatch, "naive", lambda q, k, v, causal: seen.append(q))
    opened = job("decode")
    call = opened.call(batch=1, q_len=1, kv_len=8)
    run = cells.in_turn("naive", call, ["abc", "def"])
    for _ in range(3):
        run()
    assert seen == ["a", "d", "a"]


def test_inputs_follow_the_seed_and_are_of_the_dtype() -> None:
    opened = job(dtype="bf16", kv_heads=4)
    call = opened.call(batch=2, q_len=3, kv_len=5)
    (first,), (again,) = cells.draw_inputs(opened, call), cells.draw_inputs(opened, call)
    other = cells.draw_inputs(job(dtype="bf16", kv_heads=4, seed=1), call)[0]
    assert [tuple(tensor.shape) for tensor in first] == [(2, 12, 3, 64), (2, 4, 5, 64), (2, 4, 5, 64)]
    assert all(tensor.dtype == torch.bfloat16 for tensor in first)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])


def test_ceilings_are_of_the_dtype() -> None:
    found = ceilings.probe(job(dtype="bf16"))
    assert found["flops_per_s"] > 0
    assert found["copy_bytes_per_s"] > 0
    assert "bf16 matmul of 256 x 256" in found["how"]


def test_ceilings_of_a_busy_machine_say_so(monkeypatch) -> None:
    class Busy(parts.Gate):
        def busy(self, variant: str) -> bool:
            return True

    assert "busy" not in ceilings.probe(job())["how"]
    monkeypatch.setattr(ceilings, "gate_for", lambda kind, threads: Busy())
    assert ceilings.probe(job())["how"].endswith("the machine was busy, so both are too low")


def test_the_time_part_ends_with_the_ceilings() -> None:
    assert events_of("scaling", "time", job(lengths=(16,), rounds=1))[-1]["event"] == "ceilings"


def test_the_environment_says_what_was_decided() -> None:
    described = environment(open_job(default_spec("decode", device="cpu", dtype="auto")))
    assert described["dtype"] in ("bf16", "fp32")
    assert described["cache"].startswith("cold")
    assert described["implementations"] == ["naive", "math", "flash"]
    json.dumps(described, allow_nan=False)


def test_a_dtype_the_device_lacks_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(Device, "dtypes", lambda self: ("fp32",))
    with pytest.raises(ValueError, match="dtype is 'fp64'; cpu computes in fp32"):
        open_job(default_spec("memory", device="cpu", dtype="fp64"))
