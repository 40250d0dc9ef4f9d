"""Calibrating: what each micro-benchmark counts, and the rates that follow from its time. No clock is tested."""

import math

import pytest
import torch

from lab.cost.calibration import Calibration
from lab.cost.prediction_terms import COLD, KINDS
from lab.cost.traffic import operations
from lab.measure import calibrate as module
from lab.measure import calibrator, microbenchmarks
from lab.measure.calibrate import ROUNDS, TRIES, Tally, calibrate, quiet_seconds
from lab.measure.calibrator import Calibrator
from lab.measure.device import DTYPES, Device
from lab.measure.gate import Gate
from lab.measure.microbenchmarks import (
    CPU_FUSED,
    Setting,
    cold_calls,
    from_memory,
    lengths,
    mask_calls,
    memory_pool,
    product_calls,
    score_calls,
)
from lab.measure.quiet import Quiet
from lab.measure.samples import Samples

HEADS, HEAD_DIM = 2, 8
STARTED: list[int] = []
CPU = torch.device("cpu")


def setting(dtype: str = "fp32") -> Setting:
    return Setting(CPU, DTYPES[dtype], heads=HEADS, head_dim=HEAD_DIM)


@pytest.fixture
def small(monkeypatch):
    """Micro-benchmarks of a size that runs at once."""
    monkeypatch.setattr(microbenchmarks, "LENGTHS", (4, 6, 8))
    monkeypatch.setattr(microbenchmarks, "LENGTHS_16_BIT", (4, 6, 8))
    monkeypatch.setattr(calibrator, "COPY_BYTES", (64, 256))
    monkeypatch.setattr(calibrator, "DECODE_LENGTHS", (4, 8, 16))
    for each in (calibrator, microbenchmarks):
        monkeypatch.setattr(each, "STREAMED", (4, 16))
    monkeypatch.setattr(calibrator, "SQUARE", {"cpu": 8, "cuda": 8})


def calibrated(dtype: str, seconds: float = 1e-3, start: float = 1e-12) -> Calibration:
    """Calibrate with a stopwatch on which every call takes one millisecond, and an empty one next to nothing."""

    def stopwatch(calls):
        STARTED.append(len(calls))
        for call in calls.values():
            call()  # each must run
        empty = len(calls) == 1 and next(iter(calls.values()))().numel() == 16
        return dict.fromkeys(calls, start if empty else seconds)

    STARTED.clear()
    with torch.inference_mode():
        made = Calibrator(setting(dtype), stopwatch, device_name="test", slots=2, cached_bytes=4096)
        found = made.run()
        assert made.steps() == len(STARTED)  # the plan of a progress bar
        own = made.steps(found)  # a wide calibration is there already
        assert own < len(STARTED) if setting(dtype).narrow else own == len(STARTED)
        return found


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp64"])
def test_rates_are_the_counted_work_over_the_time(small, dtype: str) -> None:
    found = calibrated(dtype)
    assert found.matmul.value == pytest.approx(2 * 8**3 / 1e-3)
    assert dict(found.bandwidth.points) == pytest.approx({64: 64e3, 256: 256e3})
    for form in ("qk", "pv"):
        assert dict(found.matmuls[f"{form}/{HEAD_DIM}"].points) == pytest.approx(
            {HEADS * n * n: 2 * HEADS * n * n * HEAD_DIM / 1e-3 for n in (4, 6, 8)}
        )
        for cache in ("", COLD):
            assert dict(found.matmuls[f"{form}1{cache}/{HEAD_DIM}"].points) == pytest.approx(
                {HEADS * n: 2 * HEADS * n * HEAD_DIM / 1e-3 for n in (4, 8, 16)}
            )
    first = found.elements[("promote" if setting(dtype).narrow else "mul") + COLD]
    assert dict(first.points) == pytest.approx(
        {HEADS * n * HEAD_DIM: HEADS * n * HEAD_DIM / 1e-3 for n in (4, 8, 16)}
    )
    for kind, curve in found.elements.items():
        heads = 1 if kind in ("ones", "tril", "not", "where_mask") else HEADS
        if kind not in microbenchmarks.MODEL_KINDS and not kind.endswith(COLD):
            assert dict(curve.points) == pytest.approx(
                {heads * n * n: heads * n * n / 1e-3 for n in (4, 6, 8)}
            )


def test_starts_are_taken_off_on_a_cpu_but_never_more_than_half(small) -> None:
    assert calibrated("fp32", seconds=1e-3, start=2e-4).matmul.value == pytest.approx(2 * 8**3 / 8e-4)
    assert calibrated("fp32", seconds=1e-3, start=9e-4).matmul.value == pytest.approx(2 * 8**3 / 5e-4)


def test_narrow_inputs_are_calibrated_with_the_type_that_kernels_accumulate_in(small) -> None:
    found = calibrated("bf16")
    assert found.wide is not None
    assert (found.wide.dtype, found.wide.wide) == ("fp32", None)
    assert calibrated("fp32").wide is None


def test_every_pass_of_every_implementation_has_a_micro_benchmark(small) -> None:
    shape = {"batch": 1, "heads": 4, "kv_heads": 2, "q_len": 8, "kv_len": 8, "head_dim": 8, "causal": True}
    for dtype in ("fp32", "bf16", "fp64"):
        found = calibrated(dtype)
        measured = set(found.elements) | set(found.wide.elements if found.wide else ())
        for implementation in ("naive", "naive_inplace", "math"):
            for step in operations(implementation, **shape, dtype=dtype):
                assert step.flops or KINDS[step.name] in measured, step.name


def test_fused_tiles_of_a_cpu_are_those_the_kernel_cuts(small) -> None:
    found = calibrated("fp32")
    assert set(found.fused) == {"flash/32x128", "flash/64x256", "flash/64x512", "flash/256x512"}


def test_a_fused_share_predicts_the_call_it_came_from(small) -> None:
    from lab.cost.prediction import predict_attention

    found = calibrated("fp32")
    for queries, keys in CPU_FUSED:
        shape = {"batch": 1, "heads": HEADS, "kv_heads": HEADS, "q_len": queries, "kv_len": keys}
        seconds = predict_attention("flash", found, **shape, head_dim=HEAD_DIM, causal=False).seconds
        assert seconds - found.starts["flash"].value == pytest.approx(5e-4, rel=1e-6)  # half is the start


def test_calibrated_shapes_are_none_that_a_validation_measures() -> None:
    from lab.measure.validate import Grid

    for dtype in ("fp32", "bf16"):
        assert not set(lengths(setting(dtype))) & set(Grid().lengths)
    assert not {shape for shape in CPU_FUSED if shape[0] == shape[1]} & {(n, n) for n in Grid().lengths}


def test_calls_have_the_sizes_they_are_named_for() -> None:
    with torch.inference_mode():
        assert {call().numel() for call in score_calls(setting(), 6).values()} - {HEADS * 6} == {HEADS * 36}
        assert {call().numel() for call in mask_calls(setting(), 6).values()} == {36}
        products = product_calls(setting(), 3, 5)
        assert products["qk"]().shape == (1, HEADS, 3, 5)
        assert products["pv"]().shape == (1, HEADS, 3, HEAD_DIM)


def test_keys_from_memory_are_as_many_as_no_cache_holds() -> None:
    pool = memory_pool(setting(), 2**20)
    assert pool.numel() * 4 >= 2**20
    batch, keys = microbenchmarks.STREAMED
    assert len(from_memory(setting(), pool, keys, batch)) >= 2  # keys and values of one step
    sets = from_memory(setting(), pool, 96)
    assert {each.shape for each in sets} == {(1, HEADS, 96, HEAD_DIM)}
    assert len({each.data_ptr() for each in sets}) == len(sets)
    assert sum(each.numel() for each in sets) > pool.numel() - sets[0].numel()


def test_every_cold_call_takes_the_next_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(microbenchmarks, "STREAMED", (1, 8))
    pool = memory_pool(setting(), 2**14)
    with torch.inference_mode():
        outputs = [cold_calls(setting(), pool, 8)["qk"]() for _ in range(2)]
        calls = cold_calls(setting(), pool, 8)
        first, second = calls["qk"](), calls["qk"]()
    assert outputs[0].shape == first.shape
    assert not torch.equal(first, second)


def test_disturbed_calls_are_timed_again_and_the_rest_is_kept(monkeypatch) -> None:
    tries = []

    def timed(device, variants, protocol, gate):
        tries.append(set(variants))
        busy = 5 if len(tries) < 3 else 0
        values = {"quiet": 1.0, "loud": [4.0, 3.0, 3.5][len(tries) - 1]}
        return {
            name: Samples(5, 1, seconds=[values[name]] * 5, busy=0 if name == "quiet" else busy)
            for name in variants
        }

    monkeypatch.setattr(module, "time_variants", timed)
    monkeypatch.setattr(Quiet, "wait", lambda self: True)
    calls = {"quiet": lambda: None, "loud": lambda: None}
    assert quiet_seconds(Device(), calls, Gate(), Quiet(0)) == {"quiet": 1.0, "loud": 3.5}
    assert tries == [{"quiet", "loud"}, {"loud"}, {"loud"}]


def test_what_is_never_quiet_is_counted_and_not_tried_again_once_it_is_late(monkeypatch) -> None:
    tries = []

    def timed(device, variants, protocol, gate):
        tries.append(protocol.patience_s)
        return {name: Samples(5, 1, seconds=[1.0] * 5, busy=5 if name == "loud" else 0) for name in variants}

    monkeypatch.setattr(module, "time_variants", timed)
    monkeypatch.setattr(Quiet, "wait", lambda self: True)
    calls, tally = {"quiet": lambda: None, "loud": lambda: None}, Tally()
    quiet_seconds(Device(), calls, Gate(), Quiet(0), tally=tally)
    assert tries == [ROUNDS.patience_s] * TRIES
    quiet_seconds(Device(), calls, Gate(), Quiet(0), tally=tally, until_s=0.0)
    assert tries[TRIES:] == [0.0]
    assert tally == Tally(timed=4, never_quiet=2)


def test_a_call_that_is_never_quiet_counts_at_its_best(monkeypatch) -> None:
    values = iter([4.0, 3.0, 3.5])
    monkeypatch.setattr(Quiet, "wait", lambda self: True)
    monkeypatch.setattr(
        module, "time_variants", lambda *_: {"loud": Samples(5, 1, seconds=[next(values)] * 5, busy=5)}
    )
    assert quiet_seconds(Device(), {"loud": lambda: None}, Gate(), Quiet(0)) == {"loud": 3.0}


def test_devices_and_dtypes_that_cannot_be_calibrated_are_refused() -> None:
    class Other(Device):
        kind = "mps"

        def __init__(self) -> None:
            self.index = 0

    with pytest.raises(ValueError, match="device must be cpu or cuda to be calibrated, got 'mps'"):
        calibrate(Other(), "fp32", Gate())
    with pytest.raises(ValueError, match="dtype must be one of fp64, fp32, bf16, fp16, got 'fp8'"):
        calibrate(Device(), "fp8", Gate())


@pytest.mark.slow
def test_a_real_calibration_names_its_sources_and_survives_json() -> None:
    found = calibrate(Device(), "fp32", Gate(), protocol=module.QUICK, limit_s=3.0)
    assert Calibration.from_json(found.to_json()) == found
    assert all(source for *_, source in found.constants())
    # How large they are is for `python -m lab validate`: the machine of a test may be busy.
    rates = [rate for _, rate in found.bandwidth.points] + [found.matmul.value]
    assert all(0 < rate < math.inf for rate in rates)
    assert 0 < found.fused["flash/256x512"].value < math.inf
