"""The whole suite as one job and one run: every experiment in its short form, one after the other."""

from __future__ import annotations

import streamlit as st

from lab.runs import Run, default_spec
from lab.runs.suites import SUITES
from lab.view import here, skeleton
from lab.view.format import whole
from lab.view.measure_panel import Panel

NAMES = {"cpu": "what a CPU can show", "all": "everything"}


def show(page: str, device: str, *, binary: bool) -> None:
    """The choice of suite, its button, its progress and its points.

    Args:
        page: the page's file name.
        device: the scenario's choice.
        binary: write bytes in KiB, MiB, GiB.
    """
    offered = tuple(name for name in SUITES if name != "cpu" or here.kind(device) == "cpu")
    beside, results = st.columns([1, 3])
    with beside:
        suite = st.selectbox(
            "Suite", offered, format_func=NAMES.__getitem__, key=f"{page}_suite", persist_state="session"
        )
        spec = default_spec(
            suite, device="cpu" if suite == "cpu" else device, threads=here.threads(), quick=True
        )
        panel = Panel(f"{page}_suite_{suite}", spec, binary, note=f"Short forms of {words(suite)}.")
        panel.controls()
    with results:
        panel.live(_draw)


def words(suite: str) -> str:
    """The experiments of a suite in words."""
    return f"{whole(len(SUITES[suite]))} experiments: {', '.join(SUITES[suite])}"


def _draw(run: Run | None) -> None:
    skeleton.badges(measured=run is not None, recorded_on=None)
