"""Gradients by hand against autograd, and wrong gradients are caught by name."""

from functools import partial

import pytest
import torch
from measured_shapes import SHAPES, draw

from lab.measure.attention import naive_attention, sdpa
from lab.measure.gradients import NAMES, Step, forward, forward_and_backward, judge, true_gradients


def step(shape: str, dtype: str) -> Step:
    q, k, v = (tensor.requires_grad_() for tensor in draw(SHAPES[shape], dtype))
    upstream = torch.randn(q.shape, generator=torch.Generator().manual_seed(1)).to(q.dtype)
    return Step(q, k, v, upstream)


@pytest.mark.parametrize("shape", ["square", "grouped", "fewer queries than keys", "one KV head", "decode"])
@pytest.mark.parametrize("causal", [True, False])
def test_gradients_by_hand_are_those_of_autograd(shape: str, causal: bool) -> None:
    given = step(shape, "fp64")
    found = forward_and_backward(partial(naive_attention, causal=causal), given)
    for true, tensor in zip(true_gradients(given, causal), found, strict=True):
        torch.testing.assert_close(tensor.detach(), true.values)


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("backend", ["math", "flash", None])
@pytest.mark.parametrize("shape", ["square", "past two tiles"])
def test_both_passes_of_pytorch_s_kernels_match_float64(shape: str, backend: str | None, dtype: str) -> None:
    given = step(shape, dtype)
    found = forward_and_backward(partial(sdpa, backend=backend, causal=True), given)
    assert judge(true_gradients(given, True), found).fault is None


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_wrong_result_is_caught_and_named(place: int, dtype: str) -> None:
    given = step("square", dtype)
    found = list(forward_and_backward(partial(naive_attention, causal=True), given))
    found[place] = found[place] * 1.3
    fault = judge(true_gradients(given, True), tuple(found)).fault
    assert fault is not None
    assert fault.startswith(f"{NAMES[place]}: ")


def test_a_forward_pass_alone_is_judged_by_its_output() -> None:
    given = step("square", "fp32")
    expected = true_gradients(given, True)
    assert judge(expected, forward(partial(naive_attention, causal=True), given)).fault is None
    assert judge(expected, forward(partial(naive_attention, causal=False), given)).fault is not None
