"""Every implementation computes attention: against float64, over shapes, dtypes and masks."""

import math

import pytest
import torch
from measured_shapes import SHAPES, draw

from lab.measure.accuracy import check, truth
from lab.measure.attention import naive_attention, reference
from lab.measure.blockwise import blockwise
from lab.measure.flex import flex
from lab.measure.fp32_intermediates import naive_fp32
from lab.measure.implementations import IMPLEMENTATIONS
from lab.measure.row_skipping import BLOCK, masked_on_diagonal, opened_rows, unmasked_first_rows
from lab.measure.split_kv import merge, split_kv, split_kv_fused
from lab.measure.windowed import masked_window, windowed
from lab.runs import IMPLEMENTATIONS as NAMES

NEW = ("naive_inplace", "naive_fp32", "blockwise", "split_kv", "windowed")


def fault(output, inputs, *, causal, window=None):
    return check(output, truth(*inputs, causal=causal, window=window)).fault


def test_every_implementation_may_be_asked_for() -> None:
    assert set(IMPLEMENTATIONS) <= set(NAMES)
    assert all(entry.name == name for name, entry in IMPLEMENTATIONS.items())


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("dtype", ["fp64", "fp32", "bf16", "fp16"])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", NEW)
def test_an_implementation_matches_float64(name: str, causal: bool, dtype: str, shape) -> None:
    inputs = draw(shape, dtype)
    output = IMPLEMENTATIONS[name].function(*inputs, causal=causal)
    assert output.dtype == inputs[0].dtype
    assert fault(output, inputs, causal=causal) is None


@pytest.mark.parametrize("key_block", [1, 7, 64, 10_000])
def test_online_softmax_does_not_depend_on_its_blocks(key_block: int) -> None:
    inputs = draw(SHAPES["grouped, fewer queries"], "fp64")
    output = blockwise(*inputs, causal=True, key_block=key_block)
    torch.testing.assert_close(output, reference(*inputs, causal=True))


def test_online_softmax_survives_scores_that_overflow_an_exponential() -> None:
    q, k, v = draw(SHAPES["square"], "fp32")
    output = blockwise(q * 100, k * 100, v, causal=True, key_block=16)
    assert bool(output.isfinite().all())
    torch.testing.assert_close(
        output, naive_attention(q * 100, k * 100, v, causal=True), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("splits", [1, 2, 3, 7, 200])
@pytest.mark.parametrize("causal", [True, False])
def test_parts_of_the_cache_merge_to_the_whole(splits: int, causal: bool) -> None:
    inputs = draw(SHAPES["fewer queries than keys"], "fp64")
    output = split_kv(*inputs, causal=causal, splits=splits)
    torch.testing.assert_close(output, reference(*inputs, causal=causal))


@pytest.mark.parametrize("splits", [1, 2, 4, 10])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_the_fused_kernel_over_parts_merges_to_the_whole(splits: int, dtype: str) -> None:
    inputs = draw(SHAPES["decode"], dtype)
    assert fault(split_kv_fused(*inputs, causal=True, splits=splits), inputs, causal=True) is None


def test_a_merge_that_ignores_the_log_sums_is_caught() -> None:
    inputs = draw((1, 2, 2, 1, 64, 16), "fp32")
    k, v = (tensor.tensor_split(2, dim=2) for tensor in inputs[1:])
    halves = torch.stack(
        [naive_attention(inputs[0], *part, causal=False) for part in zip(k, v, strict=True)], -3
    )
    plain_mean = merge(halves, torch.zeros(1, 2, 2, 1))
    assert fault(plain_mean, inputs, causal=False) is not None


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda q, k, v: split_kv(q, k, v, causal=False, splits=0), "splits must be from 1 to kv_len"),
        (lambda q, k, v: split_kv(q, k, v, causal=False, splits=131), "got splits=131 and kv_len=130"),
        (lambda q, k, v: split_kv_fused(q, k, v, causal=False, splits=2), "q must hold one query"),
        (
            lambda q, k, v: windowed(q, k, v, causal=True, window=0),
            "window must be at least 1 or None, got 0",
        ),
        (
            lambda q, k, v: windowed(q, k, v, causal=False, window=3),
            "causal must be True when there is a window",
        ),
        (lambda q, k, v: blockwise(q, k, v, causal=True, key_block=0), "key_block must be at least 1, got 0"),
        (lambda q, k, v: naive_fp32(q[0], k, v, causal=True), "q must be"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(function, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        function(*draw(SHAPES["square"], "fp32"))


@pytest.mark.parametrize("window", [1, 2, 33, 129, 130, 1000])
@pytest.mark.parametrize(
    "shape", ["square", "fewer queries than keys", "grouped, fewer queries", "past two tiles"]
)
def test_a_window_in_blocks_is_the_window_as_a_mask(window: int, shape: str) -> None:
    inputs = draw(SHAPES[shape], "fp32")
    assert fault(windowed(*inputs, causal=True, window=window), inputs, causal=True, window=window) is None
    assert fault(masked_window(*inputs, window=window), inputs, causal=True, window=window) is None


@pytest.mark.parametrize("wrong", [31, 33])
def test_a_window_off_by_one_is_caught(wrong: int) -> None:
    inputs = draw(SHAPES["square"], "fp32")
    assert fault(windowed(*inputs, causal=True, window=wrong), inputs, causal=True, window=32) is not None


def test_a_window_of_one_key_gives_that_key_s_value() -> None:
    q, k, v = draw(SHAPES["square"], "fp32")
    torch.testing.assert_close(windowed(q, k, v, causal=True, window=1), v)
    torch.testing.assert_close(reference(q, k, v, causal=True, window=1), v.double())


@pytest.mark.parametrize("shape", ["square", "grouped, fewer queries", "past two tiles"])
def test_masking_the_diagonal_blocks_alone_is_causal_attention(shape: str) -> None:
    inputs = draw(SHAPES[shape], "fp32")
    assert fault(masked_on_diagonal(*inputs), inputs, causal=True) is None


def test_an_unmasked_first_row_sees_every_key_and_no_other_row_changes() -> None:
    q, k, v = draw(SHAPES["square"], "fp64")
    output, right = unmasked_first_rows(q, k, v), reference(q, k, v, causal=True)
    full = reference(q, k, v, causal=False)
    first = torch.arange(q.shape[2]) % BLOCK == 0
    torch.testing.assert_close(output[:, :, first], full[:, :, first])
    torch.testing.assert_close(output[:, :, ~first], right[:, :, ~first])
    assert opened_rows(130, 130, q.device)[first].all()
    assert check(output, truth(q, k, v, causal=True)).fault is not None


def test_fp32_intermediates_keep_what_16_bit_ones_lose() -> None:
    q, k, v = draw(SHAPES["square"], "bf16")
    q, k = q * 4, k * 4
    right = reference(q, k, v, causal=True)
    errors = [
        float((function(q, k, v, causal=True).double() - right).square().mean()) ** 0.5
        for function in (naive_fp32, naive_attention)
    ]
    assert errors[0] < errors[1] / 3


@pytest.mark.slow
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("shape", ["square", "grouped"])
def test_flex_attention_matches_float64_where_it_compiles(shape: str, causal: bool) -> None:
    inputs = draw(SHAPES[shape], "fp32")
    try:
        output = flex(*inputs, causal=causal)
    except RuntimeError as refusal:
        pytest.skip(f"no compiler here: {str(refusal).splitlines()[0]}")
    assert fault(output, inputs, causal=causal) is None
    assert math.isfinite(float(output.sum()))
