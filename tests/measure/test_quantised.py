"""Quantised caches: how numbers are rounded, what they weigh, and how far they come back."""

import pytest
import torch

from lab.measure.distributions import KINDS as INPUTS
from lab.measure.distributions import OUTLIERS, RANDOM, SHARP, largest_score, shaped
from lab.measure.quantised import KINDS, store


def cache(seed: int = 0, head_dim: int = 64) -> torch.Tensor:
    return torch.randn(2, 3, 10, head_dim, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("kind", "expected"),
    # 2 x 3 x 10 rows of 64 numbers: one fp32 scale a row; one fp16 scale for 32 numbers of 8 or 4 bits
    [("fp8", 60 * 64), ("int8", 60 * (64 + 4)), ("q8_0", 60 * 2 * 34), ("q4_0", 60 * 2 * 18)],
)
def test_what_is_stored_weighs_what_the_engine_s_blocks_do(kind: str, expected: int) -> None:
    assert store(cache(), kind).nbytes == expected


@pytest.mark.parametrize("kind", ["int8", "q8_0"])
def test_eight_bits_come_back_within_half_a_step(kind: str) -> None:
    tensor = cache()
    blocks = tensor if kind == "int8" else tensor.unflatten(-1, (-1, 32))
    step = blocks.abs().amax(dim=-1, keepdim=True) / 127
    rounding_of_scale = 127 * step * 2**-11  # q8_0 keeps its scale in fp16
    allowed = step / 2 + (rounding_of_scale if kind == "q8_0" else 1e-6)
    error = (store(tensor, kind).read() - tensor).abs().reshape(blocks.shape)
    assert bool((error <= allowed).all())


def test_four_bits_are_sixteen_levels_and_keep_the_extreme() -> None:
    tensor = cache()
    stored = store(tensor, "q4_0")
    assert int(stored.codes.min()) == -8
    assert int(stored.codes.max()) <= 7
    blocks, read = tensor.unflatten(-1, (-1, 32)), stored.read().unflatten(-1, (-1, 32))
    extreme = blocks.abs().argmax(dim=-1, keepdim=True)
    torch.testing.assert_close(read.gather(-1, extreme), blocks.gather(-1, extreme), rtol=2**-10, atol=0)
    step = blocks.abs().amax(dim=-1, keepdim=True) / 8
    assert bool(((read - blocks).abs() <= 1.01 * step).all())


@pytest.mark.parametrize("kind", KINDS)
def test_zeros_stay_zero(kind: str) -> None:
    read = store(torch.zeros(1, 1, 4, 64, dtype=torch.bfloat16), kind).read()
    assert read.dtype == torch.bfloat16
    assert not bool(read.any())


@pytest.mark.parametrize("kind", KINDS)
def test_more_bits_err_less(kind: str) -> None:
    tensor = cache()
    error = float((store(tensor, kind).read() - tensor).square().mean()) ** 0.5
    assert {"fp8": 0.01, "int8": 0.002, "q8_0": 0.002, "q4_0": 0.03}[kind] < error
    assert error < {"fp8": 0.04, "int8": 0.01, "q8_0": 0.01, "q4_0": 0.12}[kind]


def test_what_cannot_be_stored_is_refused() -> None:
    with pytest.raises(ValueError, match="kind must be one of fp8, int8, q8_0, q4_0, got 'q3'"):
        store(cache(), "q3")
    with pytest.raises(ValueError, match="head_dim must be a multiple of 32 for q8_0, got 48"):
        store(cache(head_dim=48), "q8_0")


def test_inputs_of_each_kind_are_as_hard_as_they_say() -> None:
    inputs = tuple(cache(seed) for seed in range(3))
    scores = {kind: largest_score(shaped(inputs, kind)) for kind in INPUTS}
    assert scores[RANDOM] < 6
    assert scores[SHARP] == pytest.approx(16 * scores[RANDOM])
    assert scores[OUTLIERS] > 3 * scores[RANDOM]
    assert int((shaped(inputs, OUTLIERS)[1] != inputs[1]).any(dim=(0, 1, 2)).sum()) == 2
    with pytest.raises(ValueError, match="kind must be one of"):
        shaped(inputs, "easy")


def test_the_largest_score_is_that_of_the_score_tensor() -> None:
    q, k, v = cache(0).repeat(1, 2, 1, 1), cache(1), cache(2)
    scores = q @ k.repeat_interleave(2, dim=1).mT / 8
    assert largest_score((q, k, v)) == pytest.approx(float(scores.abs().max()), rel=1e-5)
