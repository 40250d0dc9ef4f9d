"""Controls that several pages use. Their keys belong to a page; the shared scenario is in scenario.py."""

from __future__ import annotations

import streamlit as st


def choice(page: str, name: str, label: str, options: dict[str, str], help: str | None = None) -> str:
    """One of a few options, as buttons in a row.

    Args:
        page: the page's file name.
        name: of the control, part of its key.
        label: what stands above it.
        options: text by value; the first is the default.
        help: a sentence for the tooltip.

    Returns:
        The chosen value, always one of the options.
    """
    values = tuple(options)
    chosen = st.segmented_control(
        label,
        values,
        default=None if f"{page}_{name}" in st.session_state else values[0],
        required=True,
        format_func=options.__getitem__,
        key=f"{page}_{name}",
        help=help,
        persist_state="session",
    )
    return chosen if chosen in options else values[0]


def pick(page: str, name: str, label: str, options: dict[str, str], help: str | None = None) -> str:
    """One of a few options whose texts are too long for buttons.

    Args:
        page: the page's file name.
        name: of the control, part of its key.
        label: what stands above it.
        options: text by value; the first is the default.
        help: a sentence for the tooltip.

    Returns:
        The chosen value, always one of the options.
    """
    values = tuple(options)
    chosen = st.selectbox(
        label,
        values,
        format_func=options.__getitem__,
        key=f"{page}_{name}",
        help=help,
        persist_state="session",
    )
    return chosen if chosen in options else values[0]


def causal(page: str) -> bool:
    """The mask: causal, or none. Both are what attention is used with; they do not cost the same."""
    options = {"causal": "Causal", "full": "Full"}
    return (
        choice(page, "mask", "Mask", options, "Causal: a position sees itself and what came before.")
        == "causal"
    )


def linear(page: str, help_text: str = "Linear axes run from zero to the scenario's context.") -> bool:
    """The axes: logarithmic, or linear from zero.

    Args:
        page: the page's file name.
        help_text: how far the linear ones run.
    """
    options = {"log": "Log", "linear": "Linear"}
    return choice(page, "axes", "Axes", options, help_text) == "linear"
