"""One wording for every term and every work; each page shows those it uses."""

import json
import re

import pytest

from lab.cost import catalog
from lab.cost.chapter_card import SHEET_ID
from lab.view import code_drawer, glossary, references, skeleton
from tests.view.pages import FILES, ROOT, chart, open_page, words

CHAPTERS_OWN = {
    "Score matrix", "Materialise", "Prefill", "Decode", "KV cache", "Exact attention", "SDPA backend",
    "Online softmax", "Achieved bandwidth",
}  # fmt: skip
"""The chapter's list of key terms; it has prefill- and decode-shaped attention as one entry."""
CHAPTERS_REFERENCES = {"vaswani", "flash", "sdpa"}
NAMES_WITH_DIGITS = re.compile(r"\b(fp16|bf16|fp32|float64|GPT-2|RTX 2060 12GB)\b")


def test_the_chapters_own_terms_are_all_there() -> None:
    assert {term.term for term in glossary.terms() if term.chapter} == CHAPTERS_OWN


def test_terms_that_the_pages_use_have_an_entry() -> None:
    used = {
        "Ridge", "Tile", "Mixture of experts", "Elementwise", "Log-sum-exp", "Quartiles", "Linear attention",
    }  # fmt: skip
    assert used <= {term.term for term in glossary.terms()}


def test_the_chapters_card_is_called_by_the_name_of_its_sheet() -> None:
    assert catalog.card(SHEET_ID).name in glossary.says(skeleton.CHAPTERS_TERM)


def test_a_term_has_one_wording() -> None:
    names = [term.term.lower() for term in glossary.terms()]
    assert len(set(names)) == len(names)
    assert names == sorted(names)


@pytest.mark.parametrize("term", glossary.terms(), ids=lambda term: term.term)
def test_a_term_types_no_figure_and_ends_its_sentence(term: glossary.Term) -> None:
    assert not re.search(r"\d", NAMES_WITH_DIGITS.sub("", term.says))
    assert term.says.endswith(".")
    assert set(term.pages) <= set(FILES)
    assert term.holds(term.term.upper())


@pytest.mark.parametrize("file", FILES)
def test_a_page_says_its_words_its_works_and_its_code(file: str) -> None:
    at = open_page(file, **{f"code_{file}": True})
    written = words(at)
    everything = (written + json.dumps(chart(at), ensure_ascii=False)).lower()
    everything += (ROOT / "pages" / f"{file}.py").read_text(encoding="utf-8").lower()
    assert len(glossary.of_page(file)) >= 2
    for term in glossary.of_page(file):
        assert term.text in written
        assert any(word.lower() in everything for word in (term.term, *term.also)), term.term
    used = [one for one in references.references() if file in one.pages]
    assert used
    assert all(one.text in written for one in used)
    shown = [element.value for element in at.main.get("code")]
    for both in code_drawer.SHOWN[file].values():
        assert all(code_drawer.source(one).code in shown for one in both)


def test_code_travels_only_when_asked_for() -> None:
    assert not any("def " in element.value for element in open_page("roofline").main.get("code"))


def test_the_whole_glossary_opens_from_the_sidebar() -> None:
    at = open_page("kv_cache")
    at.sidebar.button(key="glossary").click().run()
    texts = [element.value for element in at.get("markdown")]
    assert all(term.text in texts for term in glossary.terms())


def test_words_find_the_entries_that_hold_all_of_them() -> None:
    found = {term.term for term in glossary.terms() if term.holds("Running MAXIMUM")}
    assert "Online softmax" in found
    assert "FFN" not in found
    assert not any(term.holds("running nonsense") for term in glossary.terms())


def test_works_have_an_address_but_for_the_two_documents() -> None:
    found = {one.id: one for one in references.references()}
    assert {one.id for one in found.values() if one.url is None} == {"chapter", "overview"}
    assert all(one.url.startswith("https://") for one in found.values() if one.url)
    assert {one.id for one in found.values() if "chapter" in one.named_by} == CHAPTERS_REFERENCES
    assert all(set(one.pages) <= set(FILES) for one in found.values())


def test_a_badge_says_what_the_glossary_says() -> None:
    at = open_page("score_tensor")
    helped = {element.proto.help for element in at.main.get("markdown") if "Predicted" in element.value}
    assert glossary.says("Predicted") in helped
    with pytest.raises(ValueError, match="must be a term of the glossary"):
        glossary.says("predicted by the moon")
