"""Whole numbers in, whole numbers out: validation, int64 without wrap-around, float64 only with a warning."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lab.cost import (
    Ceilings,
    InexactResultWarning,
    Workload,
    attention_flops,
    attention_pairs,
    bound_seconds,
    card,
    element_bytes,
    fit_exponent,
    is_exact,
    kv_bytes,
    model,
    score_bytes,
    weight_bytes,
)
from lab.cost.activations import stored_activations
from lab.cost.allocation import llama_cpp
from lab.cost.cache import cache_layers
from lab.cost.exact import INT64_MAX, byte_ratio, count, evaluate, flag, total
from lab.cost.spans import scored_pairs


@pytest.mark.parametrize(
    "value", [0, -1, 1.5, 4096.0, float("nan"), float("inf"), True, None, "12", 1j, np.True_, []]
)
def test_count_refuses_what_counts_nothing_and_names_it(value: object) -> None:
    with pytest.raises(ValueError, match="layers must be"):
        count("layers", value)


@pytest.mark.parametrize(
    "values", [[1, 0], [3, -2], [1.0, 2.0], [True, False], ["a"], np.array([1, 2], dtype="float32")]
)
def test_count_refuses_arrays_that_count_nothing(values: object) -> None:
    with pytest.raises(ValueError, match="layers must be whole numbers of at least 1"):
        count("layers", values)


def test_count_names_the_offending_element_of_an_array() -> None:
    with pytest.raises(ValueError, match="got -2 in the array"):
        count("layers", np.array([3, -2, 5]))


def test_count_refuses_unsigned_values_that_int64_would_turn_negative() -> None:
    with pytest.raises(ValueError, match=r"at most 2\*\*63 - 1"):
        count("layers", np.array([2**63], dtype=np.uint64))


def test_numpy_scalars_become_python_integers() -> None:
    for value in (np.int8(7), np.uint64(7), np.array(7)):
        assert type(count("layers", value)) is int


@pytest.mark.parametrize("value", [1, 0, None, "yes", float("nan"), np.array([True])])
def test_flag_takes_only_true_and_false(value: object) -> None:
    with pytest.raises(ValueError, match="causal must be True or False"):
        flag("causal", value)


@pytest.mark.parametrize(
    ("value", "ratio"), [(2, (2, 1)), (0.5, (1, 2)), (1.0625, (17, 16)), (Fraction(34, 32), (17, 16))]
)
def test_byte_ratio_is_exact(value: int | float | Fraction, ratio: tuple[int, int]) -> None:
    assert byte_ratio("bytes_per_element", value) == ratio


@pytest.mark.parametrize(
    "value", [0, -2, 0.0, -0.5, 0.1, float("nan"), float("inf"), True, None, "2", Fraction(-1, 2)]
)
def test_byte_ratio_refuses_what_is_no_size(value: object) -> None:
    with pytest.raises(ValueError, match="bytes_per_element must be"):
        byte_ratio("bytes_per_element", value)


def test_scalars_are_exact_beyond_64_bits() -> None:
    huge = 10**15
    assert kv_bytes(huge, 80, 64, huge, 128, 2) == 2 * huge * 80 * 64 * huge * 128 * 2
    assert attention_flops(1, 1, huge, huge, 1, True) == 2 * huge * (huge + 1)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.uint8, np.uint32, np.int64])
def test_narrow_array_types_do_not_wrap(dtype: type) -> None:
    lengths = np.array([100, 120], dtype=dtype)
    assert score_bytes(1, 12, lengths, lengths, 2).tolist() == [240_000, 345_600]


def test_array_stays_int64_up_to_the_last_value_that_fits() -> None:
    elements = np.array([1, INT64_MAX // 6])
    result = kv_bytes(elements, 1, 1, 1, 1, 3)
    assert is_exact(result)
    assert result.tolist() == [6, INT64_MAX // 6 * 6]


def test_array_is_float64_and_says_so_one_element_beyond_int64() -> None:
    elements = np.array([1, INT64_MAX // 6 + 1])
    with pytest.warns(InexactResultWarning, match="exceeds int64"):
        result = kv_bytes(elements, 1, 1, 1, 1, 3)
    assert result.dtype == np.float64
    assert not is_exact(result)
    assert result[1] == pytest.approx(float(INT64_MAX))


def test_large_but_uncorrelated_arguments_stay_exact() -> None:
    """The largest batch and the largest length never meet in one element, so the result fits after all."""
    batch, length = np.array([1, 10**6]), np.array([10**7, 10])
    result = attention_flops(batch, 32, length, length, 128, True)
    assert is_exact(result)
    assert result.tolist() == [
        attention_flops(int(b), 32, int(t), int(t), 128, True) for b, t in zip(batch, length, strict=True)
    ]


def test_arrays_broadcast() -> None:
    grid = kv_bytes(np.array([[1], [2]]), 12, 12, np.array([512, 1024, 2048]), 64, 2)
    assert grid.shape == (2, 3)
    assert grid[1, 2] == kv_bytes(2, 12, 12, 2048, 64, 2)


def test_empty_arrays_give_empty_results() -> None:
    assert evaluate(lambda a, b: a * b, np.array([], dtype=np.int64), 5).shape == (0,)


def test_part_filled_bytes_count_whole() -> None:
    assert score_bytes(1, 1, 1, 3, 0.5) == 2
    assert score_bytes(1, 1, 1, np.array([3, 4]), 0.5).tolist() == [2, 2]


def test_is_exact_tells_integers_from_everything_else() -> None:
    assert is_exact(5)
    assert is_exact(np.int64(5))
    assert not is_exact(5.0)
    assert not is_exact(True)
    assert not is_exact(np.array([1.0]))


def test_an_integer_beyond_int64_beside_an_array_stays_exact_where_the_result_fits() -> None:
    assert attention_pairs(np.array([1, 3]), np.array([2, 9]), True, 10**30).tolist() == [2, 7 + 8 + 9]
    with pytest.warns(InexactResultWarning):
        assert kv_bytes(np.array([2]), 10**30, 1, 1, 1, 1)[0] == pytest.approx(4e30)


def test_an_integer_beyond_float64_beside_an_array_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must be below 2\*\*1024, got a number of 1329 bits"):
        kv_bytes(np.array([2]), 10**400, 1, 1, 1, 1)


def test_total_adds_without_wrap_around() -> None:
    half = np.array([INT64_MAX // 2 + 1])
    with pytest.warns(InexactResultWarning):
        assert total([half, half])[0] == pytest.approx(2.0**63)
    assert total([2**63, 2**63]) == 2**64
    assert total([]) == 0


@pytest.mark.parametrize("look_up", [element_bytes, model, card])
@pytest.mark.parametrize("name", [[1], {}, np.array(["fp16"]), None, 2])
def test_names_that_are_no_text_are_refused(look_up: Callable[[Any], object], name: object) -> None:
    with pytest.raises(ValueError, match="must be one of"):
        look_up(name)


def test_numbers_beyond_float64_are_refused_where_a_rate_is_needed() -> None:
    ceilings = Ceilings("a", "b", 1e12, 1e11)
    for name, refused in (
        ("flops_per_s", lambda: Ceilings("a", "b", 10**400, 1e11)),
        ("flops", lambda: bound_seconds(10**400, 1, ceilings)),
        ("lengths", lambda: fit_exponent([1, 10**400], [1, 2])),
        ("bytes_per_element", lambda: weight_bytes(model("gpt2"), [1, 2])),
    ):
        with pytest.raises(ValueError, match=f"^{name} "):
            refused()


def test_switches_take_true_and_false_only() -> None:
    """The word "no" is true to Python: it must not pass for a yes."""
    gpt2 = model("gpt2")
    for name, refused in (
        ("causal", lambda: scored_pairs(gpt2.kinds[0].attention, 1, 2, causal="no")),
        ("causal", lambda: Workload(1, 2, 1, "fp16", "no")),
        ("unified", lambda: llama_cpp(cache_layers(gpt2), 1, 2, unified="no")),
        ("full_windows", lambda: llama_cpp(cache_layers(gpt2), 1, 2, full_windows="no")),
        ("dropout", lambda: stored_activations(gpt2, Workload(1, 2, 2, "fp16"), dropout="no")),
    ):
        with pytest.raises(ValueError, match=f"^{name} must be True or False, got 'no'"):
            refused()
