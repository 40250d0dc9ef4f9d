"""The Download popover under every chart: PNG, SVG and CSV, made when they are asked for.

What the heading and the badges above a chart say is remembered for the chart that follows them, so that its
caption says the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from urllib.parse import urlencode

import streamlit as st

from lab.view import here, pictures, scenario
from lab.view.charts import Figure
from lab.view.format import whole
from lab.view.pictures import Caption

_SAID, _HELD = "said_above_the_chart", "downloads_held"
FORMATS: dict[str, tuple[Callable[[Figure, Caption], bytes], str]] = {
    "PNG": (pictures.png, "image/png"),
    "SVG": (pictures.svg, "image/svg+xml"),
    "CSV": (pictures.csv, "text/csv"),
}


def say_above(**said: str | bool | None) -> None:
    """Remember what stands above the next chart.

    Args:
        said: "heading", "recorded_on" and "measured", as far as they are shown.
    """
    st.session_state[_SAID] = st.session_state.get(_SAID, {}) | said


def begin() -> None:
    """A page begins: nothing stands above its first chart yet, and nothing redraws it."""
    st.session_state.pop(_SAID, None)
    st.session_state.pop(_HELD, None)


def hold(active: bool) -> None:
    """Offer no files while the charts are redrawn twice a second: a file asked for would be gone meanwhile.

    Args:
        active: whether a measurement redraws the charts that follow.
    """
    st.session_state[_HELD] = active


def popover(figure: Figure, key: str, page: str) -> None:
    """The button under a chart, and in it one button a format.

    Args:
        figure: the chart.
        key: of the chart; names the files too.
        page: the page's file name.
    """
    caption = caption_of(figure, page, st.session_state.pop(_SAID, {}))
    with st.popover("Download", icon=":material/download:", type="tertiary", key=f"download_{key}"):
        if st.session_state.get(_HELD):
            st.caption("Ready as soon as the measurement has ended.")
            return
        st.caption("This chart with its caption, on a light page; its numbers in SI units.")
        with st.container(horizontal=True):
            for name, (make, mime) in FORMATS.items():
                st.download_button(
                    name, partial(make, figure, caption), f"attention-cost-{key}.{name.lower()}", mime,
                    key=f"{name.lower()}_{key}", on_click="ignore",
                )  # fmt: skip


def caption_of(figure: Figure, page: str, said: dict[str, str | bool | None]) -> Caption:
    """The caption of a chart on the page shown.

    Args:
        figure: the chart.
        page: the page's file name.
        said: what stands above it.
    """
    scene = scenario.current()
    words = (
        f"{scene.model.name}, T = {whole(scene.context)} tokens, batch {whole(scene.batch)}, {scene.dtype}"
    )
    return Caption(str(said.get("heading") or figure.description), words, _source(figure, said), link(page))


def _source(figure: Figure, said: dict[str, str | bool | None]) -> str:
    """Where lines and points come from, as the badges above the chart say."""
    points = figure.data.get("points")
    kinds = set(points.get("kind", ["measured"] * len(points))) if points is not None else set()
    drawn = "Lines" if "lines" in figure.data else "Bars"
    sentences = [f"{drawn}: predicted."] if "measured" in said else []
    if "recorded" in kinds:
        sentences.append(f"Points recorded on {said.get('recorded_on') or 'other machines'}.")
    if kinds - {"recorded"}:
        known = here.environment(scenario.current().device) or {}
        name = known.get("device_name")
        sentences.append("Points measured on this machine" + (f" ({name})." if name else "."))
    if "noisy" in kinds:
        sentences.append("Dashed rings are noisy: the machine was busy.")
    return " ".join(sentences)


def link(page: str) -> str:
    """The address that opens a page with the scenario of this session, whatever the defaults become.

    Args:
        page: the page's file name.
    """
    state = {choice.key: choice.clamp(st.session_state.get(choice.key)) for choice in scenario.choices()}
    texts = {choice.key: choice.text(state[choice.key]) for choice in scenario.choices()}
    return f"{st.context.url or f'/{page}'}?{urlencode(texts)}"
