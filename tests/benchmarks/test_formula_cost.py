"""How fast lab.cost is: arrays against numpy's arithmetic, a budget against a small one; times printed."""

import time
from collections.abc import Callable

import numpy as np
import pytest

from lab.cost import attention_flops, kv_bytes, score_bytes
from lab.cost.budget import budget
from lab.cost.catalog import model
from lab.cost.serving import crossover_batch, crossover_tokens
from lab.cost.shapes import prefill

CONFIGURATIONS = 1_000_000
# Checking a million arguments and guarding against overflow may cost as much again as the arithmetic, no
# more.
MOST_TIMES_THE_ARITHMETIC = 4.0
# A crossover divides, guards the division and checks its arguments.
MOST_TIMES_A_DIVISION = 8.0


def best_seconds(*calls: Callable[[], object], rounds: int = 21) -> list[float]:
    """Time calls in turn, round after round; the least of each is the one the machine disturbed least."""
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for number, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[number] = min(best[number], time.perf_counter() - start)
    return best


@pytest.fixture(scope="module")
def lengths() -> np.ndarray:
    return np.random.default_rng(0).integers(1, 131_072, CONFIGURATIONS)


@pytest.fixture(scope="module")
def batches() -> np.ndarray:
    return np.random.default_rng(1).integers(1, 1_024, CONFIGURATIONS)


@pytest.fixture
def report(capsys: pytest.CaptureFixture) -> Callable[[str], None]:
    def show(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}", end=" ")

    return show


def bare_flops(batch: np.ndarray, length: np.ndarray) -> np.ndarray:
    pairs = length * length - length * (length - 1) // 2
    return 2 * 32 * 256 * batch * pairs


@pytest.mark.parametrize("name", ["kv_bytes", "score_bytes", "attention_flops"])
def test_a_million_configurations_cost_little_more_than_their_arithmetic(
    name: str, batches: np.ndarray, lengths: np.ndarray, report: Callable[[str], None]
) -> None:
    checked, bare = {
        "kv_bytes": (
            lambda: kv_bytes(batches, 32, 8, lengths, 128, 2),
            lambda: 2 * 32 * 8 * 128 * 2 * batches * lengths,
        ),
        "score_bytes": (
            lambda: score_bytes(batches, 32, lengths, lengths, 2),
            lambda: 32 * 2 * batches * lengths * lengths,
        ),
        "attention_flops": (
            lambda: attention_flops(batches, 32, lengths, lengths, 128, True),
            lambda: bare_flops(batches, lengths),
        ),
    }[name]
    assert np.array_equal(checked(), bare())
    seconds, bare_seconds = best_seconds(checked, bare)
    report(f"{name}: {seconds * 1e3:.1f} ms for 10^6, {seconds / CONFIGURATIONS * 1e6:.4f} µs each")
    assert seconds <= MOST_TIMES_THE_ARITHMETIC * bare_seconds


def test_a_million_crossovers_cost_little_more_than_a_division(
    batches: np.ndarray, lengths: np.ndarray, report: Callable[[str], None]
) -> None:
    llama = model("llama-3-8b")
    by_length, by_batch, bare_seconds = best_seconds(
        lambda: crossover_batch(llama, lengths),
        lambda: crossover_tokens(llama, batches),
        lambda: 1.5e10 / (lengths * 131_072.0 - 8192),
    )
    report(f"crossover: {by_length * 1e3:.1f} ms by length, {by_batch * 1e3:.1f} ms by batch, for 10^6")
    assert by_length <= MOST_TIMES_A_DIVISION * bare_seconds


def test_all_four_questions_for_a_million_pairs(
    batches: np.ndarray, lengths: np.ndarray, report: Callable[[str], None]
) -> None:
    """KV bytes, score bytes, FLOPs and the crossover batch, against numpy doing the same without a check."""
    llama = model("llama-3-8b")

    def checked() -> None:
        kv_bytes(batches, 32, 8, lengths, 128, 2)
        score_bytes(batches, 32, lengths, lengths, 2)
        attention_flops(batches, 32, lengths, lengths, 128, True)
        crossover_batch(llama, lengths)

    def bare() -> tuple[np.ndarray, ...]:
        return (
            2 * 32 * 8 * 128 * 2 * batches * lengths,
            32 * 2 * batches * lengths * lengths,
            bare_flops(batches, lengths),
            1.5e10 / (lengths * 131_072.0 - 8192),
        )

    seconds, bare_seconds = best_seconds(checked, bare)
    report(f"all four for 10^6 (T, batch) pairs: {seconds * 1e3:.1f} ms")
    assert seconds <= MOST_TIMES_THE_ARITHMETIC * bare_seconds


@pytest.mark.parametrize("name", ["gpt2", "gemma-2-9b", "deepseek-v3", "gpt-oss-120b"])
def test_a_whole_budget_costs_by_kind_of_layer(name: str, report: Callable[[str], None]) -> None:
    """Time grows with the kinds of layer there are (1 to 2), not with the layers (12 to 61)."""
    work = prefill(4, 8192, "bf16")
    shape, one_kind = model(name), model("gpt2")
    seconds, one = best_seconds(
        lambda: [budget(shape, work).matmul_flops for _ in range(100)],
        lambda: [budget(one_kind, work).matmul_flops for _ in range(100)],
    )
    report(f"{name}: {seconds * 1e4:.0f} µs for a whole budget")
    assert seconds <= 3 * len(shape.kinds) * one
