"""Graphs of short calls: who is replayed, what is said, and that a replay that fails costs the time nothing."""

import pytest
import torch
from cuda_double import Card, CardDevice, install

from lab.measure.device import Device
from lab.measure.gate import Gate
from lab.measure.graphs import SHORT_S, Replay, replays
from lab.measure.protocol import Protocol
from lab.measure.samples import Samples

ROUNDS = Protocol(rounds=3, warm_up_s=0.0)
SHORT = Samples(3, 5, seconds=[10e-6, 11e-6, 12e-6])
LONG = Samples(3, 1, seconds=[2 * SHORT_S] * 3)


@pytest.fixture
def card(monkeypatch) -> Card:
    return install(monkeypatch, Card())


def test_only_short_calls_of_a_card_are_replayed(card) -> None:
    both = {"short": SHORT, "long": LONG}
    with card.active():
        calls = dict.fromkeys(both, lambda: torch.ones(4))
        found = replays(CardDevice(), calls, both, ROUNDS, Gate())
        assert replays(Device(), calls, both, ROUNDS, Gate()) == {}
    assert list(found) == ["short"]
    assert found["short"].eager_s == 11e-6
    per_graph = card.graphs[0].kernels
    expected_s = (card.launch_s + per_graph * card.kernel_s) / per_graph
    assert found["short"].graph_s == pytest.approx(expected_s)


@pytest.mark.parametrize("turns", [1, 7, 64])
def test_a_graph_visits_every_set_of_inputs_equally_often(card, turns) -> None:
    with card.active():
        replays(CardDevice(), {"a": lambda: torch.ones(4)}, {"a": SHORT}, ROUNDS, Gate(), turns)
    assert card.graphs[0].kernels >= turns
    assert card.graphs[0].kernels % turns == 0


def test_a_replay_that_fails_leaves_the_eager_times(monkeypatch, card) -> None:
    def fails(self: object) -> None:
        raise RuntimeError("CUDA error: an illegal instruction was encountered\nmore")

    monkeypatch.setattr("cuda_double.Graph.replay", fails)
    with card.active():
        found = replays(CardDevice(), {"a": lambda: torch.ones(4)}, {"a": SHORT}, ROUNDS, Gate())
    assert found["a"].measures == {"eager_s": 11e-6}
    assert found["a"].reason == "CUDA error: an illegal instruction was encountered"


def test_the_two_times_in_words() -> None:
    assert Replay(12.3e-6, 4.56e-6).words == (
        "shorter than 50 µs: 12.3 µs a call launched by itself, 4.56 µs replayed from a CUDA graph"
    )
    assert Replay(12.3e-6, reason="out of memory").words.endswith(
        "launching included; not replayed from a CUDA graph: out of memory"
    )
