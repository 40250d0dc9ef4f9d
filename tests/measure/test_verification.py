"""What is right at first only, writes to its inputs or gives no tensor is never accepted, and harms no other."""

import pytest
import torch
from measured_shapes import SMALL, job, points_of
from planted import BREACHES, overwriting_once, plant, right, right_once

from lab.measure import parts
from lab.measure.experiments.first_call import FirstCall
from lab.measure.gate import Gate
from lab.measure.implementations import IMPLEMENTATIONS
from lab.measure.verification import LATER, UNKNOWN_CULPRIT, fingerprint, refill

TINY = SMALL | {"lengths": (16,), "implementations": ("naive", "flash"), "rounds": 1}


@pytest.fixture(autouse=True)
def quick(sooner, monkeypatch):
    monkeypatch.setattr(parts, "gate_for", lambda kind, threads: Gate())


@pytest.mark.parametrize("experiment", ["scaling", "causal"])  # a grid and cases
@pytest.mark.parametrize("part", ["time", "memory"])
@pytest.mark.parametrize("breach", BREACHES)
def test_a_breach_is_told_of_its_own_point_alone(
    monkeypatch, experiment: str, part: str, breach: str
) -> None:
    make, status, words = BREACHES[breach]
    plant(monkeypatch, IMPLEMENTATIONS, "naive", make())
    points = points_of(experiment, part, job(experiment, **TINY))
    broken = [point for point in points if point.implementation == "naive"]
    assert (broken[0].status, broken[0].timing, broken[0].peak_extra_bytes) == (status, None, None)
    assert broken[0].reason.startswith(words)
    others = [point for point in points if point.implementation == "flash"]
    assert others
    assert all(point.status in ("ok", "noisy") for point in others)


@pytest.mark.parametrize("experiment", ["memory", "gqa", "mask", "accuracy", "training"])
def test_every_kind_of_experiment_calls_again(monkeypatch, experiment: str) -> None:
    plant(monkeypatch, IMPLEMENTATIONS, "naive" if experiment != "mask" else "sdpa", right_once())
    names = {"implementations": ("naive",) if experiment != "mask" else ("sdpa",)}
    points = points_of(experiment, "memory", job(experiment, **TINY | names))
    own = [point for point in points if point.variant not in ("boolean mask", "float mask")]
    assert {point.status for point in own} <= {"wrong", "refused"}  # an output of zeros has no gradient
    assert any(str(point.reason).startswith(LATER) for point in own)


def test_right_attention_in_the_same_place_is_accepted(monkeypatch) -> None:
    plant(monkeypatch, IMPLEMENTATIONS, "naive", right)
    for experiment in ("scaling", "causal"):
        points = points_of(experiment, "memory", job(experiment, **TINY))
        assert {point.status for point in points} == {"ok"}


def test_a_fresh_process_calls_again_as_well(monkeypatch) -> None:
    calls = right_once()
    plant(monkeypatch, IMPLEMENTATIONS, "naive", calls)
    opened = job("first_call", **TINY | {"implementations": ("naive",)})
    (point,) = points_of("first_call", "cold", opened)
    assert (point.status, point.timing) == ("wrong", None)
    assert FirstCall.name == point.experiment


def test_where_nobody_is_known_to_have_changed_the_inputs_nothing_is_accepted(monkeypatch) -> None:
    for experiment in ("scaling", "causal"):
        plant(monkeypatch, IMPLEMENTATIONS, "naive", overwriting_once())
        points = points_of(experiment, "memory", job(experiment, **TINY))
        assert {(point.status, point.reason) for point in points} == {("refused", UNKNOWN_CULPRIT)}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int8, torch.int64])
@pytest.mark.parametrize("shape", [(2, 3, 8, 4), (1, 1, 1, 3), (7,), ()])
def test_a_fingerprint_sees_every_number_and_its_place(dtype, shape) -> None:
    tensor = torch.arange(1, torch.Size(shape).numel() + 1).reshape(shape).to(dtype)
    seen = fingerprint([tensor])
    assert fingerprint([tensor.clone()]) == seen
    for place in range(tensor.numel()):
        other = tensor.clone().reshape(-1)
        other[place] += 1
        assert fingerprint([other]) != seen
    if tensor.numel() > 1:
        assert fingerprint([tensor.reshape(-1).flip(0)]) != seen
    refill([tensor], [torch.zeros_like(tensor)])
    assert not tensor.any()
