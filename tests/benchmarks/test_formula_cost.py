"""How fast lab.cost is on arrays: gated as a ratio to numpy's bare arithmetic, absolute figures printed."""

import time
from collections.abc import Callable

import numpy as np
import pytest

from lab.cost import attention_flops, kv_bytes, score_bytes

CONFIGURATIONS = 1_000_000
# Checking a million arguments and guarding against overflow may cost as much again as the arithmetic, no
# more.
MOST_TIMES_THE_ARITHMETIC = 4.0


def best_seconds(call: Callable[[], object], repeats: int = 7) -> float:
    """Time a call; the least of several is the one the machine disturbed least."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.fixture(scope="module")
def lengths() -> np.ndarray:
    return np.random.default_rng(0).integers(1, 131_072, CONFIGURATIONS)


@pytest.fixture(scope="module")
def batches() -> np.ndarray:
    return np.random.default_rng(1).integers(1, 1_024, CONFIGURATIONS)


def bare_flops(batch: np.ndarray, length: np.ndarray) -> np.ndarray:
    pairs = length * length - length * (length - 1) // 2
    return 2 * batch * 32 * pairs * 256


@pytest.mark.parametrize("name", ["kv_bytes", "score_bytes", "attention_flops"])
def test_a_million_configurations_cost_little_more_than_their_arithmetic(
    name: str, batches: np.ndarray, lengths: np.ndarray, capsys: pytest.CaptureFixture
) -> None:
    checked, bare = {
        "kv_bytes": (
            lambda: kv_bytes(batches, 32, 8, lengths, 128, 2),
            lambda: 2 * batches * 32 * 8 * lengths * 128 * 2,
        ),
        "score_bytes": (
            lambda: score_bytes(batches, 32, lengths, lengths, 2),
            lambda: batches * 32 * lengths * lengths * 2,
        ),
        "attention_flops": (
            lambda: attention_flops(batches, 32, lengths, lengths, 128, True),
            lambda: bare_flops(batches, lengths),
        ),
    }[name]
    assert np.array_equal(checked(), bare())
    seconds, bare_seconds = best_seconds(checked), best_seconds(bare)
    with capsys.disabled():
        print(
            f"\n{name}: {seconds * 1e3:.1f} ms for 10^6, {seconds / CONFIGURATIONS * 1e6:.4f} µs each",
            end=" ",
        )
    assert seconds <= MOST_TIMES_THE_ARITHMETIC * bare_seconds
