"""Every implementation computes attention; the reference does too, and never holds all scores."""

import math

import numpy as np
import pytest
import torch
from measured_shapes import SHAPES, draw

from lab.measure.accuracy import allowed_error, check, truth
from lab.measure.attention import naive_attention, reference, sdpa
from lab.measure.device import DTYPES
from lab.measure.implementations import IMPLEMENTATIONS
from lab.measure.trace import record

ON_THE_CPU = ("naive", "naive_inplace", "math", "flash", "sdpa")


def by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> np.ndarray:
    """Attention by its definition, one query at a time, in numpy's float64."""
    q64, k64, v64 = (tensor.double().numpy() for tensor in (q, k, v))
    batch, heads, q_len, head_dim = q64.shape
    kv_heads, kv_len = k64.shape[1:3]
    output = np.empty((batch, heads, q_len, v64.shape[3]))
    for b, h, i in np.ndindex(batch, heads, q_len):
        seen = kv_len - q_len + i + 1 if causal else kv_len
        shared = h // (heads // kv_heads)
        scores = k64[b, shared, :seen] @ q64[b, h, i] / math.sqrt(head_dim)
        weights = np.exp(scores - scores.max())
        output[b, h, i] = weights / weights.sum() @ v64[b, shared, :seen]
    return output


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("shape", [name for name in SHAPES if name != "past two tiles"])
def test_reference_is_attention_by_its_definition(shape: str, causal: bool) -> None:
    q, k, v = draw(SHAPES[shape], "fp32")
    assert np.abs(reference(q, k, v, causal=causal).numpy() - by_hand(q, k, v, causal)).max() < 1e-13


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ON_THE_CPU)
def test_implementations_match_the_reference(name: str, shape: str, dtype: str, causal: bool) -> None:
    q, k, v = draw(SHAPES[shape], dtype)
    output = IMPLEMENTATIONS[name].function(q, k, v, causal=causal)
    assert output.dtype == DTYPES[dtype]
    accuracy = check(output, truth(q, k, v, causal=causal))
    assert accuracy.fault is None
    assert accuracy.max_abs_error <= accuracy.tolerance


@pytest.mark.parametrize("length", [2048, 4096])
@pytest.mark.parametrize("name", ON_THE_CPU)
def test_long_sequences_match_on_sampled_rows(name: str, length: int) -> None:
    q, k, v = draw((1, 2, 2, length, length, 32), "bf16")
    accuracy = check(IMPLEMENTATIONS[name].function(q, k, v, causal=True), truth(q, k, v, causal=True))
    assert accuracy.fault is None


def test_reference_of_some_rows_is_those_rows_of_all() -> None:
    q, k, v = draw(SHAPES["grouped, fewer queries"], "fp32")
    rows = torch.tensor([0, 7, 39])
    some = reference(q, k, v, causal=True, rows=rows)
    assert (some - reference(q, k, v, causal=True)[:, :, rows]).abs().max() < 1e-14


def test_reference_never_holds_all_scores() -> None:
    q, k, v = draw((1, 2, 2, 4096, 4096, 16), "fp32")
    one_head = 8 * 4096 * 4096
    assert record(lambda: reference(q, k, v, causal=True)).peak_bytes < one_head


def test_pytorchs_own_causal_is_another_function_when_lengths_differ() -> None:
    q, k, v = draw(SHAPES["fewer queries than keys"], "fp32")
    top_left = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert check(top_left, truth(q, k, v, causal=True)).fault is not None
    assert check(sdpa(q, k, v, causal=True), truth(q, k, v, causal=True)).fault is None


def test_naive_copies_no_keys_for_grouped_heads() -> None:
    batch, heads, kv_heads, length, head_dim = 1, 8, 2, 64, 512
    q, k, v = draw((batch, heads, kv_heads, length, length, head_dim), "fp32")
    two_score_tensors_and_output = 4 * (2 * heads * length * length + heads * length * head_dim)
    assert record(lambda: naive_attention(q, k, v, causal=False)).peak_bytes < two_score_tensors_and_output


@pytest.mark.parametrize(
    ("sizes", "causal", "message"),
    [
        ([(1, 2, 8), (1, 2, 8, 4), (1, 2, 8, 4)], False, r"q must be \(batch, heads, length, head_dim\)"),
        ([(1, 2, 8, 4), (1, 2, 8, 4), (1, 2, 9, 4)], False, "k and v must have one batch, heads and length"),
        ([(1, 2, 8, 4), (1, 2, 8, 5), (1, 2, 8, 5)], False, "q and k must have one batch and head_dim"),
        ([(1, 4, 8, 4), (1, 3, 8, 4), (1, 3, 8, 4)], False, "got kv_heads=3 and heads=4"),
        ([(1, 2, 8, 4), (1, 2, 7, 4), (1, 2, 7, 4)], True, "got kv_len=7 and q_len=8"),
    ],
)
@pytest.mark.parametrize("name", ["naive", "naive_inplace", "sdpa", "flash"])
def test_shapes_that_do_not_fit_are_refused_in_words(name, sizes, causal, message) -> None:
    with pytest.raises(ValueError, match=message):
        IMPLEMENTATIONS[name].function(*(torch.zeros(size) for size in sizes), causal=causal)


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(ValueError, match="backend must be one of math, flash, efficient, cudnn or None"):
        sdpa(*draw(SHAPES["square"], "fp32"), backend="fastest", causal=True)


def test_tolerances_tighten_with_the_dtype() -> None:
    allowed = [allowed_error(DTYPES[dtype], 1024) for dtype in ("bf16", "fp16", "fp32", "fp64")]
    assert allowed == sorted(allowed, reverse=True)
    assert allowed[0] < 0.07
    assert allowed[2] < 1e-5
    assert allowed[3] < 1e-13
