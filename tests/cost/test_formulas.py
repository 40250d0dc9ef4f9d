"""The closed forms against counting by hand, and the laws they obey."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cost import (
    attention_flops,
    attention_pairs,
    element_bytes,
    fit_exponent,
    is_exact,
    kv_bytes,
    logits_bytes,
    mask_bytes,
    score_bytes,
    softmax_operations,
)

small = st.integers(1, 40)
size = st.integers(1, 10**6)


def pairs_by_loop(q_len: int, kv_len: int, window: int | None) -> int:
    """Count the keys of each of the last q_len positions, one by one."""
    positions = range(kv_len - q_len + 1, kv_len + 1)
    return sum(position if window is None else min(position, window) for position in positions)


@given(q_len=small, more=st.integers(0, 40), window=st.none() | st.integers(1, 90))
def test_causal_pairs_equal_a_loop_over_positions(q_len: int, more: int, window: int | None) -> None:
    assert attention_pairs(q_len, q_len + more, True, window) == pairs_by_loop(q_len, q_len + more, window)


@given(lengths=st.lists(small, min_size=1, max_size=5), more=small, window=st.none() | small)
def test_arrays_equal_scalars_element_by_element(lengths: list[int], more: int, window: int | None) -> None:
    q_len = np.array(lengths)
    result = attention_flops(3, 4, q_len, q_len + more, 8, True, window=window)
    assert is_exact(result)
    assert result.tolist() == [attention_flops(3, 4, t, t + more, 8, True, window=window) for t in lengths]


@given(
    steps=small, start=st.integers(0, 40), batch=small, heads=small, head_dim=small, window=st.none() | small
)
def test_decode_steps_sum_to_the_causal_prefill(
    steps: int, start: int, batch: int, heads: int, head_dim: int, window: int | None
) -> None:
    total = start + steps
    decode = sum(
        attention_flops(batch, heads, 1, position, head_dim, True, window=window)
        for position in range(start + 1, total + 1)
    )
    assert decode == attention_flops(batch, heads, steps, total, head_dim, True, window=window)


@given(length=size, heads=size, head_dim=size)
def test_doubling_the_prompt_quadruples_prefill_and_doubles_decode(
    length: int, heads: int, head_dim: int
) -> None:
    def dense(q_len: int, kv_len: int) -> int:
        return attention_flops(1, heads, q_len, kv_len, head_dim, False)

    assert dense(2 * length, 2 * length) == 4 * dense(length, length)
    assert dense(1, 2 * length) == 2 * dense(1, length)
    assert score_bytes(1, heads, 2 * length, 2 * length, 2) == 4 * score_bytes(1, heads, length, length, 2)
    assert kv_bytes(1, 1, heads, 2 * length, head_dim, 2) == 2 * kv_bytes(1, 1, heads, length, head_dim, 2)


@given(length=size)
def test_causal_self_attention_is_half_of_dense_plus_half_the_diagonal(length: int) -> None:
    assert 2 * attention_pairs(length, length, True) == attention_pairs(length, length, False) + length


@given(q_len=size, more=size, beyond=st.integers(0, 10**6))
def test_a_window_as_long_as_the_context_changes_nothing(q_len: int, more: int, beyond: int) -> None:
    kv_len = q_len + more
    assert attention_pairs(q_len, kv_len, True, kv_len + beyond) == attention_pairs(q_len, kv_len, True)


@given(length=size, window=st.integers(1, 1000))
def test_a_window_makes_prefill_linear_once_it_is_full(length: int, window: int) -> None:
    longer = attention_pairs(window + length, window + length, True, window)
    assert longer - attention_pairs(window, window, True, window) == length * window


@given(batch=size, heads=size, q_len=size, more=size, head_dim=size, element=st.sampled_from([1, 2, 4, 8]))
def test_counts_are_positive_whole_numbers(
    batch: int, heads: int, q_len: int, more: int, head_dim: int, element: int
) -> None:
    kv_len = q_len + more
    results = [
        attention_flops(batch, heads, q_len, kv_len, head_dim, True),
        softmax_operations(batch, heads, q_len, kv_len, True),
        score_bytes(batch, heads, q_len, kv_len, element),
        kv_bytes(batch, heads, heads, kv_len, head_dim, element),
        logits_bytes(batch, q_len, heads, element),
        mask_bytes(q_len, kv_len, element),
    ]
    assert all(type(result) is int and result > 0 for result in results)


def test_values_of_another_width_count_their_own_product() -> None:
    assert attention_flops(1, 16, 7, 9, 192, False, head_dim_v=128) == 2 * 16 * 63 * 192 + 2 * 16 * 63 * 128
    assert attention_flops(1, 16, 7, 9, 64, False, head_dim_v=64) == attention_flops(1, 16, 7, 9, 64, False)


def test_kv_bytes_counts_keys_and_values() -> None:
    keys_alone = 2 * 32 * 8 * 4096 * 128 * 2
    assert kv_bytes(2, 32, 8, 4096, 128, 2) == 2 * keys_alone


def test_grouped_heads_shrink_the_cache_by_the_group() -> None:
    assert kv_bytes(1, 32, 32, 8192, 128, 2) == 4 * kv_bytes(1, 32, 8, 8192, 128, 2)


@pytest.mark.parametrize("name", ["batch", "heads", "q_len", "kv_len", "head_dim", "head_dim_v", "window"])
@pytest.mark.parametrize("value", [0, -3, 2.5, float("nan"), True, "x"])
def test_attention_flops_names_the_bad_argument(name: str, value: object) -> None:
    arguments: dict = {"batch": 1, "heads": 2, "q_len": 3, "kv_len": 4, "head_dim": 5, "causal": True}
    with pytest.raises(ValueError, match=f"^{name} must be .*got"):
        attention_flops(**{**arguments, name: value})


@pytest.mark.parametrize("function", [score_bytes, kv_bytes, logits_bytes, mask_bytes])
def test_byte_counts_name_each_bad_argument(function) -> None:
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    for name in names:
        arguments = dict.fromkeys(names, 2)
        with pytest.raises(ValueError, match=f"^{name} must be .*got"):
            function(**{**arguments, name: -1})


def test_causal_needs_at_least_as_many_keys_as_queries() -> None:
    with pytest.raises(
        ValueError, match="kv_len must be at least q_len when causal, got kv_len=3 and q_len=4"
    ):
        attention_pairs(4, 3, True)
    with pytest.raises(ValueError, match="kv_len must be at least q_len when causal"):
        attention_pairs(np.array([1, 4]), 3, True)
    assert attention_pairs(4, 3, False) == 12


def test_a_window_without_a_causal_mask_is_refused() -> None:
    with pytest.raises(ValueError, match="window needs causal=True"):
        attention_pairs(4, 4, False, 2)


def test_element_bytes_lists_the_known_names() -> None:
    assert [element_bytes(name) for name in ("fp64", "fp32", "fp16", "bf16")] == [8, 4, 2, 2]
    with pytest.raises(ValueError, match="dtype must be one of fp64, fp32, fp16, bf16, got 'fp17'"):
        element_bytes("fp17")


@given(power=st.floats(-3, 3), scale=st.floats(1e-9, 1e9), lengths=st.sets(st.integers(1, 10**6), min_size=2))
def test_fit_exponent_recovers_a_power_law(power: float, scale: float, lengths: set[int]) -> None:
    seconds = [scale * length**power for length in lengths]
    tolerance = 1e-9 / math.log(1 + 1 / max(lengths))  # nearly equal lengths fix a slope less well
    assert fit_exponent(list(lengths), seconds) == pytest.approx(power, abs=max(1e-9, min(tolerance, 1e-3)))


def test_fit_exponent_is_the_least_squares_slope() -> None:
    rng = np.random.default_rng(7)
    lengths = np.array([512, 1024, 2048, 4096])
    seconds = lengths**1.8 * rng.uniform(0.9, 1.1, 4)
    assert fit_exponent(lengths, seconds) == pytest.approx(np.polyfit(np.log(lengths), np.log(seconds), 1)[0])


@pytest.mark.parametrize(
    ("lengths", "seconds", "message"),
    [
        ([512], [1.0], "at least two different lengths"),
        ([512, 512], [1.0, 2.0], "at least two different lengths"),
        ([], [], "at least two different lengths"),
        ([512, 1024], [1.0], "2 lengths and 1 seconds"),
        ([512, 0], [1.0, 2.0], "lengths must be finite and more than 0"),
        ([512, 1024], [1.0, 0.0], "seconds must be finite and more than 0"),
        ([512, 1024], [1.0, -1.0], "seconds must be finite and more than 0"),
        ([512, 1024], [1.0, float("nan")], "seconds must be finite and more than 0"),
        ([512, float("inf")], [1.0, 2.0], "lengths must be finite and more than 0"),
        (["a", "b"], [1.0, 2.0], "lengths must be a sequence of numbers"),
        (512, 1.0, "lengths must be one-dimensional"),
    ],
)
def test_fit_exponent_refuses_what_fixes_no_slope(lengths, seconds, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_exponent(lengths, seconds)
