"""The T×T tensor against a card's memory: its limit line, the largest T that fits, the picture of T²."""

import pytest

from lab.cost import catalog, score_bytes
from lab.cost.chapter_card import SHEET_ID
from lab.cost.traffic import peak_extra_bytes
from lab.view import squares
from lab.view.format import bytes_text, whole
from lab.view.palette import DARK, LIGHT
from tests.view.pages import chart, faults, open_page, words

PAGE = "score_tensor"
GPT2 = {
    "batch": 1,
    "heads": 12,
    "kv_heads": 12,
    "head_dim": 64,
    "dtype": "fp16",
    "causal": True,
    "device": "cuda",
}


@pytest.mark.parametrize("card", [SHEET_ID, "h100-sxm"])
def test_a_cards_memory_is_a_line_and_the_largest_t_a_number(card: str) -> None:
    at = open_page(PAGE, **{f"{PAGE}_card": card})
    held = catalog.card(card).memory_bytes
    assert held in {row["y"] for row in chart(at)[1]["limits_y"]}
    (heading,) = [one.value for one in at.main.get("subheader") if "largest T" in one.value]
    fits = squares.longest(lambda T: peak_extra_bytes("naive", q_len=T, kv_len=T, **GPT2), held)
    assert f"{whole(fits)} tokens in {bytes_text(held)}" in heading
    assert peak_extra_bytes("naive", q_len=fits, kv_len=fits, **GPT2) <= held
    assert peak_extra_bytes("naive", q_len=fits + 1, kv_len=fits + 1, **GPT2) > held


def test_two_memories_close_together_share_their_words() -> None:
    rows = chart(open_page(PAGE, **{f"{PAGE}_card": SHEET_ID}))[1]["limits_y"]
    assert "the chapter's card" in "".join(row["label"] for row in rows)
    assert all(not row["label"] or row["label"].endswith("GiB") for row in rows)


def test_four_times_the_tokens_are_sixteen_squares() -> None:
    def size(tokens: int) -> int:
        return int(score_bytes(1, 12, tokens, tokens, 2))

    first, other = (squares.figure(tokens, size, bytes_text, LIGHT) for tokens in (1024, 4096))
    assert list(first.data["squares"]["bytes"]) == [size(1024) * factor**2 for factor in squares.FACTORS]
    assert next(iter(first.data["squares"]["label"])) == "T = 1k: 24 MiB"
    assert first.spec == other.spec != squares.figure(1024, size, bytes_text, DARK).spec
    at = open_page(PAGE)
    assert "24 MiB become 384 MiB" in words(at)
    assert len(at.main.get("vega_lite_chart")) == 2
    assert faults(at) == []


def test_a_memory_that_holds_nothing_holds_no_token() -> None:
    assert squares.longest(lambda T: 10 * T, 9) == 0
    assert squares.longest(lambda T: 10 * T, 109) == 10
