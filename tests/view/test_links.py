"""Addresses that others made: what the app writes it reads back, what it does not know it says in a sentence."""

from urllib.parse import parse_qsl, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from lab.view import downloads, scenario
from lab.view.pictures import Caption
from tests.view.pages import FILES, ROOT, faults, go, open_page

UNKNOWN = {
    "model": "GPT-9", "context": "7", "batch": "-1", "dtype": "int3", "device": "abacus",
    "recorded": "a card nobody has", "units": "TB",
}  # fmt: skip
NUMBERS = ("1e999", "nan", "0", "", "1,024", "9" * 400, "٣", "1k\n")


def open_link(file: str, **params: str) -> AppTest:
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    for key, value in params.items():
        at.query_params[key] = value
    return go(at.run(), file)


def said(at: AppTest) -> list[str]:
    return [warning.value for warning in at.warning]


def test_a_link_with_nothing_known_opens_the_default_scenario_and_says_so() -> None:
    at = open_link("kv_cache", **UNKNOWN)
    assert faults(at) == []
    assert len(said(at)) == len(UNKNOWN)
    for choice, sentence in zip(scenario.choices(), said(at), strict=True):
        assert f"“{UNKNOWN[choice.key]}”" in sentence
        assert sentence.endswith(f"showing {choice.text(choice.default)}.")
        assert at.session_state[choice.key] == choice.default


@pytest.mark.parametrize("key", ["context", "batch"])
def test_no_number_of_a_link_breaks_a_page(key: str) -> None:
    for number in NUMBERS:
        at = open_link(FILES[0], **{key: number})
        assert not at.exception, number
        assert len(said(at)) == 1, number
        assert len(said(at)[0]) < 200


def test_an_unknown_key_is_named_and_one_that_counts_visits_is_not() -> None:
    (sentence,) = said(open_link(FILES[0], number="bf16", utm_source="mail"))
    assert sentence.startswith("The link also holds “number”, which is left out")
    assert all(choice.key in sentence for choice in scenario.choices())


def test_the_link_of_a_downloaded_chart_opens_its_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    links: list[str] = []
    caption_of = downloads.caption_of

    def remember(*given) -> Caption:
        caption = caption_of(*given)
        links.append(caption.link)
        return caption

    monkeypatch.setattr(downloads, "caption_of", remember)
    wanted = {
        "model": "llama-3-8b", "context": 8192, "batch": 16, "dtype": "bf16", "device": "cpu",
        "recorded": scenario.NOTHING, "units": "decimal",
    }  # fmt: skip
    open_page("kv_cache", **wanted)
    at = open_link("kv_cache", **dict(parse_qsl(urlsplit(links[-1]).query)))
    assert said(at) == []
    assert {key: at.session_state[key] for key in wanted} == wanted
