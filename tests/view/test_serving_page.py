"""Serving budget: sequences that fit, the bar that shows them, and the bound of a step."""

from typing import Any

import pytest

from lab.cost import catalog
from lab.cost.predict import Ceilings
from lab.cost.serving import decode_traffic
from lab.view import (
    capacity,
    serving_options,
)
from tests.view.pages import chart, faults, line, open_page, words

TRICKS, SERVING, TRAINING, CLAIMS = (
    *("what_each_trick_changes", "serving_budget", "training_and_rules", "claims"),
)
GPT2, LLAMA_2, LLAMA_3 = (catalog.model(name) for name in ("gpt2", "llama-2-7b", "llama-3-8b"))
CEILINGS = Ceilings("a card", "a test", 1e14, 1e12)
H100 = {"model": "llama-3-8b", "context": 8192, "dtype": "bf16", f"{SERVING}_card": "h100-sxm"}


def ends(at: Any) -> dict[str, str]:
    return {row["row"]: row["text"] for row in chart(at)[1]["ends"]}


@pytest.mark.parametrize(
    ("meaning", "kv_type", "sequences"),
    [("driver", "bf16", 56), ("sold", "bf16", 52), ("driver", "q8_0", 106)],
)
def test_llama_3_8b_at_8192_on_an_h100(meaning: str, kv_type: str, sequences: int) -> None:
    at = open_page(SERVING, **H100, **{f"{SERVING}_meaning": meaning, f"{SERVING}_kv": kv_type})
    assert at.metric[0].value == str(sequences)
    assert ends(at)[f"{kv_type} KV"] == f"{sequences} sequences"
    meant = {"driver": "81,559 MiB the driver reports", "sold": "80·10⁹ bytes"}[meaning]
    assert meant in at.subheader[0].value


def test_were_it_mha_13_sequences_with_its_larger_projections() -> None:
    at = open_page(SERVING, **H100)
    assert ends(at)["were it MHA"] == "13 sequences"
    wide = capacity.as_multi_head(LLAMA_3)
    assert wide is not None
    assert wide.parameters - LLAMA_3.parameters == 32 * 2 * 4096 * (32 - 8) * 128
    assert capacity.as_multi_head(wide) is None
    assert capacity.as_multi_head(catalog.model("deepseek-v3")) is None


def test_the_bar_is_weights_cache_activations_and_reserve_up_to_the_card() -> None:
    rows = [row for row in chart(open_page(SERVING, **H100))[1]["segments"] if row["row"] == "bf16 KV"]
    sizes = {row["part"]: row["end"] - row["start"] for row in rows}
    assert sizes["weights"] == 2 * LLAMA_3.parameters == 16_060_522_496
    assert sizes["KV cache"] == 56 * 2**30
    assert sum(sizes.values()) == 81_559 * 2**20
    assert sizes["activations"] > 56 * LLAMA_3.vocab * 4


def test_a_step_is_bound_by_the_bytes_it_reads() -> None:
    at = open_page(SERVING, **H100, **{f"{SERVING}_shown": "by_type"})
    bandwidth = catalog.card("h100-sxm").memory_bandwidth_bytes_per_s
    steps = line(at, "type_bf16")
    assert len({row["x"] for row in chart(at)[1]["labels"]}) == 1  # no line runs through a name
    assert len(steps) == len(serving_options.batches(56)) == 7
    for batch, (rate, step) in zip(serving_options.batches(56), steps.items(), strict=True):
        read = decode_traffic(LLAMA_3, batch, 8192, weight_type="bf16", k_type="bf16").total_bytes
        assert step == pytest.approx(read / bandwidth)
        assert rate == pytest.approx(batch / step)


def test_a_model_too_large_for_the_card_says_so() -> None:
    at = open_page(SERVING, model="llama-3.1-405b", **{f"{SERVING}_card": "l4"})
    assert at.metric[0].value == "0"
    assert set(ends(at).values()) == {"too large"}
    at.session_state[f"{SERVING}_shown"] = "by_card"
    at.run()
    assert faults(at) == []
    assert "not one sequence" in at.subheader[0].value
    assert "The weights alone take 38 of these cards" in words(at)
    assert "at least" not in words(at).split("limited by")[0].split("BW: the sheet's")[-1]


def test_what_the_card_prints_is_not_what_the_driver_reports() -> None:
    assert "That would be 74, of 80·10⁹ bytes" in words(open_page(SERVING, **H100))
