"""The one list of pages, and the guard that each page calls first.

A folder named pages/ makes a cold server run a deep-linked page file alone, without app.py. So app.py
raises a flag in every run, and each page begins with `guard()`, which takes the flag down again; where it
was never raised, the page announces the navigation and starts over, and the same address then runs app.py
and the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

if TYPE_CHECKING:
    from streamlit.navigation.page import Page

_FLAG = "app_has_run"


@dataclass(frozen=True)
class Entry:
    """One page: its section in the menu, its file in pages/, its title and the question it answers."""

    section: str
    file: str
    title: str
    question: str

    @property
    def path(self) -> str:
        """The file, as Streamlit wants it."""
        return f"pages/{self.file}.py"


ENTRIES = (
    Entry(
        "Start",
        "start_here",
        "Start here",
        "What does attention cost, in one picture, for my model on my machine?",
    ),
    Entry(
        "Prefill",
        "count_the_work",
        "Count the work",
        "How many FLOPs, prefill and per token; where does attention pass the FFN?",
    ),
    Entry(
        "Prefill", "score_tensor", "The T×T tensor", "How big is the score tensor, and what is the real peak?"
    ),
    Entry(
        "Prefill",
        "which_kernel_ran",
        "Which kernel ran",
        "Which backend ran, and is the answer the same?",
    ),
    Entry(
        "Prefill",
        "how_time_scales",
        "How time scales",
        "Which exponent; what does the causal mask save?",
    ),
    Entry("Limits", "roofline", "Roofline", "Arithmetic, bandwidth or launch overhead?"),
    Entry(
        "Limits",
        "whole_model",
        "Whole model",
        "Where do a whole model's time and memory go?",
    ),
    Entry(
        "Decode",
        "kv_cache",
        "KV cache",
        "How many bytes are kept and read; when do they pass the weights?",
    ),
    Entry(
        "Decode",
        "batch_and_bandwidth",
        "Batch and bandwidth",
        "When is a batch barely dearer than one, and does splitting help?",
    ),
    Entry(
        "Choices",
        "what_each_trick_changes",
        "What each trick changes",
        "Which term does each technique touch, and which one fits my problem?",
    ),
    Entry(
        "Choices",
        "serving_budget",
        "Serving budget",
        "How many sequences fit, and at what latency?",
    ),
    Entry(
        "Choices",
        "training_and_rules",
        "Training and rules",
        "What changes in training, and what happens when T doubles?",
    ),
    Entry("Lab", "my_machine", "My machine", "How close do predictions come to all that was measured?"),
    Entry(
        "Lab",
        "claims",
        "Claims",
        "Which figures of the chapter and the overview hold, which are wrong, and why?",
    ),
)


def entry(file: str) -> Entry:
    """The page of a file name.

    Args:
        file: the name in pages/, without ".py".

    Raises:
        ValueError: no such page.
    """
    for item in ENTRIES:
        if item.file == file:
            return item
    raise ValueError(f"file must be one of {', '.join(item.file for item in ENTRIES)}, got {file!r}")


def file_of(key: str) -> str:
    """The page that a widget's or a chart's key belongs to.

    Args:
        key: begins with the page's file name and an underscore.

    Raises:
        ValueError: it begins with no page's.
    """
    for item in ENTRIES:
        if key.startswith(f"{item.file}_"):
            return item.file
    raise ValueError(f"key must begin with a page's file name, got {key!r}")


def neighbours(file: str) -> tuple[Entry | None, Entry | None]:
    """The pages before and after one."""
    place = ENTRIES.index(entry(file))
    before = ENTRIES[place - 1] if place else None
    after = ENTRIES[place + 1] if place + 1 < len(ENTRIES) else None
    return before, after


def menu() -> dict[str, list[Page]]:
    """The sections of the menu with their pages. The first page is the default one, whose address is "/"."""
    sections: dict[str, list[Page]] = {}
    for item in ENTRIES:
        page = st.Page(item.path, title=item.title, default=item is ENTRIES[0])
        sections.setdefault(item.section, []).append(page)
    return sections


def announce() -> Page:
    """Set up the navigation and raise the flag that the page takes down. Only app.py calls this."""
    page = st.navigation(menu(), position="top")
    st.session_state[_FLAG] = True
    return page


def guard() -> None:
    """Start over through app.py when this page was run without it."""
    if not st.session_state.pop(_FLAG, False):
        st.navigation(menu(), position="top")
        st.rerun()
