"""Online softmax equals the direct one whatever the block size, and its running values mean what they say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cost.online_softmax import direct_softmax, online_softmax


def tensors(seed: int, length: int, width: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    source = np.random.default_rng(seed)
    return (
        source.normal(size=width),
        4 * source.normal(size=(length, width)),
        source.normal(size=(length, width)),
    )


@given(seed=st.integers(0, 10_000), length=st.integers(1, 65), block=st.integers(1, 70))
def test_last_step_equals_the_direct_softmax(seed: int, length: int, block: int) -> None:
    query, keys, values = tensors(seed, length)
    *_, last = online_softmax(query, keys, values, block)
    np.testing.assert_allclose(last.output, direct_softmax(query, keys, values), rtol=1e-12, atol=1e-13)


@given(seed=st.integers(0, 10_000), length=st.integers(2, 40), block=st.integers(1, 8))
def test_every_step_is_attention_over_the_keys_so_far(seed: int, length: int, block: int) -> None:
    query, keys, values = tensors(seed, length)
    for step in online_softmax(query, keys, values, block):
        seen = slice(0, step.last_key)
        scores = keys[seen] @ query / np.sqrt(len(query))
        assert step.maximum == pytest.approx(scores.max())
        assert step.total == pytest.approx(np.exp(scores - scores.max()).sum())
        np.testing.assert_allclose(
            step.output, direct_softmax(query, keys[seen], values[seen]), rtol=1e-10, atol=1e-12
        )


def test_scores_that_would_overflow_a_plain_exponential_do_not() -> None:
    query, keys, values = tensors(0, 16)
    *_, last = online_softmax(query * 1e4, keys, values, 4)
    assert np.isfinite(last.output).all()
    np.testing.assert_allclose(last.output, direct_softmax(query * 1e4, keys, values))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"block": 0}, "block must be a whole number"),
        ({"keys": np.ones((4, 3))}, "keys must be as wide as query"),
        ({"values": np.ones((3, 8))}, "as many as values"),
        ({"query": np.full(8, np.nan)}, "finite"),
        ({"keys": np.ones((0, 8)), "values": np.ones((0, 8))}, "T at least 1"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(change: dict, words: str) -> None:
    query, keys, values = tensors(0, 4)
    arguments = {"query": query, "keys": keys, "values": values, "block": 2} | change
    with pytest.raises(ValueError, match=words):
        list(online_softmax(**arguments))
