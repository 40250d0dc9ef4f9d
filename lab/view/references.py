"""The works that a page rests on, from lab/data/references.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import streamlit as st

_FILE = Path(__file__).resolve().parents[1] / "data" / "references.json"


@dataclass(frozen=True)
class Reference:
    """One work.

    Args:
        id: identifies it.
        title: of the work.
        by: who wrote it.
        used_for: what the lab takes from it.
        pages: file names of the pages that use it.
        year: of publication; None where it has none.
        url: where to read it; None for the two documents that the lab implements.
        named_by: which of those two documents refers to it.
    """

    id: str
    title: str
    by: str
    used_for: str
    pages: tuple[str, ...]
    year: int | None = None
    url: str | None = None
    named_by: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The entry in Markdown."""
        title = f"[{self.title}]({self.url})" if self.url else f"*{self.title}*"
        who = f"{self.by}, {self.year}" if self.year else self.by
        return f"{title} ({who}): {self.used_for}"


@cache
def references() -> tuple[Reference, ...]:
    """Every work, the two documents first."""
    rows = json.loads(_FILE.read_text(encoding="utf-8"))
    tuples = ("pages", "named_by")
    return tuple(Reference(**row | {name: tuple(row.get(name, ())) for name in tuples}) for row in rows)


def drawer(page: str) -> None:
    """The works that a page uses, folded.

    Args:
        page: the page's file name.
    """
    with st.expander("Sources", icon=":material/menu_book:", key=f"sources_{page}"):
        st.markdown("\n".join(f"- {one.text}" for one in references() if page in one.pages))
