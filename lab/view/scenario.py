"""The scenario bar: model, context, batch, dtype, where to measure, what to compare with, units.

Its widgets are bound to the address, so that a link carries the scenario. They are created once, by app.py
in the sidebar, before the page runs: the same bound key on two pages would lose its value on the first
navigation. The address holds the label that a reader sees; labels are therefore a contract. A label that
the app does not know falls back to the default, with a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import streamlit as st

from lab import runs
from lab.cost import catalog
from lab.cost.shapes import ModelShape
from lab.view.axes import TOKENS
from lab.view.caveats import contents
from lab.view.ceilings import short_name
from lab.view.format import tokens_label
from lab.view.palette import Palette, palette

DEFAULT_MODEL, DEFAULT_CONTEXT, DEFAULT_BATCH, DEFAULT_DTYPE = "gpt2", 1024, 1, "fp16"
BATCHES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
DTYPES = ("fp16", "bf16", "fp32")
DEVICES = {
    "auto": "best device here",
    "cpu": "CPU",
    "cuda": "CUDA or ROCm card",
    "mps": "Apple GPU",
    "xpu": "Intel GPU",
}
UNITS = {"binary": "GiB", "decimal": "GB"}
NOTHING = "nothing"
THEME_CHECK_S = 2.0
LONGEST_KEY, MOST_KEYS = 30, 3
_COUNTS_VISITS = re.compile(r"^utm_|clid$|^ref$")
_NOTES, _DRAWN_THEME = "scenario_notes", "drawn_theme"


@dataclass(frozen=True)
class Scenario:
    """What the reader chose, checked: every field is one of the options offered."""

    model: ModelShape
    context: int
    batch: int
    dtype: str
    device: str
    recorded: runs.Run | None
    binary: bool

    @property
    def past_limit(self) -> bool:
        """Whether the context is longer than the model's own limit."""
        return self.model.max_context is not None and self.context > self.model.max_context


@dataclass(frozen=True)
class Choice:
    """One widget of the bar: its key in the address, its label, its options and their labels."""

    key: str
    label: str
    options: tuple[Any, ...]
    default: Any
    text: Callable[[Any], str]
    help: str

    def clamp(self, value: Any) -> Any:
        """The value, or the default where it is no option."""
        return value if value in self.options else self.default

    def unknown(self, wanted: str | None) -> str | None:
        """A sentence on a label that is no option's; None when the label is known or absent."""
        labels = [self.text(option) for option in self.options]
        if wanted is None or wanted in labels:
            return None
        return (
            f"The link asks for {self.label[:1].lower()}{self.label[1:]} “{wanted[:60]}”, which is not one of "
            f"the options here; showing {self.text(self.default)}."
        )


@st.cache_data
def _model_names() -> dict[str, str]:
    return {key: shape.name for key, shape in catalog.models().items()}


@cache
def recorded_runs() -> dict[str, runs.Run]:
    """The runs that came with the lab and have points, by the label under which they are offered."""
    return {run.title or short_name(run): run for run in runs.reference_runs() if run.points}


def choices() -> tuple[Choice, ...]:
    """The widgets of the bar, in order."""
    names = _model_names()
    recorded = (*recorded_runs(), NOTHING)
    return (
        Choice(
            "model", "Model", tuple(names), DEFAULT_MODEL, lambda key: names[key],
            "Shapes from the models' own configuration files.",
        ),
        Choice("context", "Context T (tokens)", TOKENS, DEFAULT_CONTEXT, tokens_label, "1k is 1,024 tokens."),
        Choice("batch", "Batch (sequences)", BATCHES, DEFAULT_BATCH, str, "Sequences computed together."),
        Choice("dtype", "Number type", DTYPES, DEFAULT_DTYPE, str, "Of weights, activations and cache."),
        Choice("device", "Measure on", tuple(DEVICES), "auto", DEVICES.__getitem__,
               "Where the Measure buttons run."),
        Choice("recorded", "Compare with", recorded, recorded[0], str,
               "A run recorded on another machine; its points are badged."),
        Choice("units", "Bytes in", tuple(UNITS), "binary", UNITS.__getitem__,
               "GiB is 2³⁰ bytes, GB is 10⁹; the tooltips show the other."),
    )  # fmt: skip


def sidebar() -> Scenario:
    """Draw the bar and return what it says. Only app.py calls this, before the page."""
    offered = choices()
    _note_unknown_labels(offered)
    with st.sidebar:
        for choice in offered:
            _widget(choice)
        scene = current()
        if scene.recorded is not None and scene.recorded.title is not None:
            st.caption(contents(scene.recorded))
    return scene


def current() -> Scenario:
    """The scenario of this session, clamped to what is offered."""
    said = {choice.key: choice.clamp(st.session_state.get(choice.key)) for choice in choices()}
    return Scenario(
        model=catalog.model(said["model"]),
        context=said["context"],
        batch=said["batch"],
        dtype=said["dtype"],
        device=said["device"],
        recorded=recorded_runs().get(said["recorded"]),
        binary=said["units"] == "binary",
    )


def notes() -> list[str]:
    """Sentences on labels of the link that were not understood; they stay until the scenario is changed."""
    return list(st.session_state.get(_NOTES, ()))


def theme() -> Palette:
    """The palette of the theme that the reader's browser shows."""
    return palette(st.context.theme.type == "dark")


@st.fragment(run_every=THEME_CHECK_S)
def watch_theme() -> None:
    """Draw the page anew when the reader has changed the theme: the browser recolours all but the charts."""
    drawn = st.session_state.setdefault(_DRAWN_THEME, st.context.theme.type)
    if st.context.theme.type != drawn:
        st.session_state[_DRAWN_THEME] = st.context.theme.type
        st.rerun()


def _note_unknown_labels(offered: Sequence[Choice]) -> None:
    """Look at the address before the widgets do: they drop what they do not know without a word."""
    sentences = [choice.unknown(st.query_params.get(choice.key)) for choice in offered]
    found = [sentence for sentence in (*sentences, _unknown_keys(offered)) if sentence]
    if found:
        st.session_state[_NOTES] = found


def _unknown_keys(offered: Sequence[Choice]) -> str | None:
    """A sentence on keys of the address that no widget has; those that count visits are passed over."""
    known = [choice.key for choice in offered]
    strange = [key for key in st.query_params if key not in known and not _COUNTS_VISITS.search(key)]
    if not strange:
        return None
    named = ", ".join(f"“{key[:LONGEST_KEY]}”" for key in strange[:MOST_KEYS])
    return f"The link also holds {named}, which is left out: its keys are {', '.join(known)}."


def _forget_notes() -> None:
    st.session_state.pop(_NOTES, None)


def _widget(choice: Choice) -> None:
    shared: dict[str, Any] = {
        "key": choice.key,
        "format_func": choice.text,
        "help": choice.help,
        "on_change": _forget_notes,
        "bind": "query-params",
    }
    if choice.key in ("context", "batch"):
        st.select_slider(choice.label, choice.options, value=choice.default, **shared)
    elif choice.key in ("dtype", "units"):
        st.segmented_control(choice.label, choice.options, default=choice.default, required=True, **shared)
    else:
        st.selectbox(choice.label, choice.options, index=choice.options.index(choice.default), **shared)
