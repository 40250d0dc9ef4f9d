"""One wording for every term: the words of a page under its main chart, all of them from the sidebar.

The texts are in lab/data/glossary.json. They hold no figure that lab.cost could compute; what a page computes
stands on the page.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import streamlit as st

from lab.view import navigation

_FILE = Path(__file__).resolve().parents[1] / "data" / "glossary.json"
_ASKED = "glossary_asked"


@dataclass(frozen=True)
class Term:
    """A word and what it means in this lab.

    Args:
        term: as the glossary lists it.
        says: what it means, in one wording for all pages.
        pages: file names of the pages that use it; the first shows it best.
        unit: of the quantity, if it is one.
        formula: in LaTeX, if there is one.
        also: other words for it on the pages.
        chapter: whether the chapter's own list has it.
    """

    term: str
    says: str
    pages: tuple[str, ...]
    unit: str = ""
    formula: str = ""
    also: tuple[str, ...] = ()
    chapter: bool = False

    @property
    def text(self) -> str:
        """The entry in Markdown."""
        unit = f" *({self.unit})*" if self.unit else ""
        formula = f" &nbsp; ${self.formula}$" if self.formula else ""
        return f"**{self.term}**{unit}: {self.says}{formula}"

    def holds(self, words: str) -> bool:
        """Whether every word asked for stands in the entry, in any case."""
        everything = " ".join((self.term, self.says, *self.also)).lower()
        return all(word in everything for word in words.lower().split())


@cache
def terms() -> tuple[Term, ...]:
    """Every term, in the order of the alphabet."""
    rows = json.loads(_FILE.read_text(encoding="utf-8"))
    found = (Term(**row | {"pages": tuple(row["pages"]), "also": tuple(row.get("also", ()))}) for row in rows)
    return tuple(sorted(found, key=lambda term: term.term.lower()))


@cache
def of_page(page: str) -> tuple[Term, ...]:
    """The terms that a page uses.

    Args:
        page: the page's file name.
    """
    return tuple(term for term in terms() if page in term.pages)


def says(name: str) -> str:
    """What a term means, for a tooltip.

    Args:
        name: as the glossary lists it.

    Raises:
        ValueError: no such term.
    """
    for term in terms():
        if term.term == name:
            return term.says
    raise ValueError(f"name must be a term of the glossary, got {name!r}")


def popover(page: str) -> None:
    """The words of a page, under its main chart.

    Args:
        page: the page's file name.
    """
    with st.popover("Words on this page", icon=":material/dictionary:", type="tertiary", key=f"words_{page}"):
        st.markdown("\n\n".join(term.text for term in of_page(page)))


def button() -> None:
    """The way to every term, in the sidebar of every page. Only app.py calls this."""
    with st.sidebar:
        st.button("Glossary", icon=":material/dictionary:", key="glossary", type="tertiary", on_click=_ask)
    if st.session_state.pop(_ASKED, False):
        _everything()


def _ask() -> None:
    st.session_state[_ASKED] = True


@st.dialog("Glossary", width="large")
def _everything() -> None:
    """Every term, each with the page that shows it best."""
    words = st.text_input("Find", key="glossary_find", placeholder="a word of the term or of its meaning")
    found = [term for term in terms() if term.holds(words)]
    for term in found:
        st.markdown(term.text)
        entry = navigation.entry(term.pages[0])
        st.page_link(entry.path, label=f"See it on: {entry.title}", icon=":material/arrow_forward:")
    if not found:
        st.caption("No term has all of these words.")
