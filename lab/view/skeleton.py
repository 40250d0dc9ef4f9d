"""The parts that every page has, in the same order.

question → place for the bet → chart under a heading that says what it shows → controls → formula → Measure
→ the gap in words → misconception → place for the exercise → next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from lab.view import charts, code_drawer, downloads, frames, glossary, navigation, references, symbols
from lab.view.axes import Axis
from lab.view.format import whole
from lab.view.palette import Palette

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

    from lab.view.scenario import Scenario

# Horizontal padding, the sidebar's spacing and the colour of chosen values have no setting of their own.
_STYLE = """<style>
button[aria-checked="true"], button[aria-checked="true"] p {color: TEXT_COLOUR;}
button[aria-pressed="true"], button[aria-pressed="true"] p {color: TEXT_COLOUR;}
[data-testid="stPopoverButton"], [data-testid="stPopoverButton"] * {color: TEXT_COLOUR !important;}
[data-testid="stSliderThumbValue"] {color: TEXT_COLOUR;}
[data-testid="stMainBlockContainer"] {padding-left: 1.5rem; padding-right: 1.5rem;}
[data-testid="stSidebarUserContent"] {padding-left: 0; padding-right: 0;}
[data-testid="stSidebarUserContent"] [data-testid="stVerticalBlock"] {gap: 0.6rem;}
[data-testid="stMainBlockContainer"] h1 {padding: 0 0 0.3rem 0;}
[data-testid="stMainBlockContainer"] h2, [data-testid="stMainBlockContainer"] h3 {padding: 0.2rem 0;}
</style>"""

HEIGHT_PX = 430
CHAPTERS_CARD, CHAPTERS_TERM = "the chapter's card", "The chapter's card"

PREDICTED, MEASURED, RECORDED = ("Predicted", "gray"), ("Measured here", "green"), ("Recorded on", "violet")


def style(palette: Palette) -> None:
    """Reduce the padding, so that question, controls and chart fit above the fold at 1024×768.

    Args:
        palette: of the theme in use; chosen values are written in its text colour.
    """
    st.html(_STYLE.replace("TEXT_COLOUR", palette.text))


def opening(file: str) -> None:
    """The question as the page's title, and the place where the bet will stand.

    Args:
        file: the page's file name.
    """
    downloads.begin()
    st.title(navigation.entry(file).question, anchor=False)
    st.container(key=f"bet_{file}")


def columns() -> tuple[DeltaGenerator, DeltaGenerator]:
    """The two columns: controls and the headline number to the left, the chart to the right."""
    left, right = st.columns([1, 3], gap="medium", wrap=False)
    return left, right


def takeaway(sentence: str) -> None:
    """The heading above a chart: what it shows, with live numbers."""
    downloads.say_above(heading=sentence)
    st.subheader(sentence, anchor=False)


def badges(*, measured: bool, recorded_on: str | None, extra: Iterable[str] = ()) -> None:
    """Say what kinds of figures the chart holds.

    Args:
        measured: whether points measured on this machine are drawn.
        recorded_on: the device whose recorded points are drawn; None when there are none.
        extra: further badges, in words.
    """
    downloads.say_above(measured=measured, recorded_on=recorded_on)
    with st.container(horizontal=True, gap="small"):
        help_text = {name: glossary.says(name) for name in ("Predicted", "Recorded", "Measured here")}
        st.badge(PREDICTED[0], icon=":material/show_chart:", color="gray", help=help_text["Predicted"])
        if recorded_on is not None:
            said = f"{RECORDED[0]} {recorded_on}"
            known = help_text["Recorded"]
            if recorded_on == CHAPTERS_CARD:
                known += f" {glossary.says(CHAPTERS_TERM)}"
            st.badge(said, icon=":material/inventory_2:", color="violet", help=known)
        if measured:
            st.badge(MEASURED[0], icon=":material/speed:", color="green", help=help_text["Measured here"])
        for words in extra:
            st.badge(words, icon=":material/info:", color="orange")


def chart(
    page: str,
    curves: Mapping[str, frames.Curve],
    marks: Sequence[frames.Mark],
    series: Sequence[charts.Series],
    extras: frames.Extras,
    *,
    x: Axis,
    y: Axis,
    at: Callable[[float], str],
    value: Callable[[float], str],
    palette: Palette,
    description: str,
) -> None:
    """Show the page's main chart.

    Args:
        page: the page's file name.
        curves: the lines by series key.
        marks: the measured points.
        series: lines and points, in order.
        extras: limits, marker, notes, slopes.
        x: the horizontal axis.
        y: the vertical axis.
        at: writes an x for the tooltip.
        value: writes a y for the tooltip.
        palette: of the theme in use.
        description: what the chart shows, in words that do not change with the data.
    """
    data = frames.bundle(curves, marks, series, extras, x=x, y=y, height_px=HEIGHT_PX, at=at, value=value)
    figure = charts.curves(
        data, series, x=x, y=y, palette=palette, description=description, height_px=HEIGHT_PX
    )
    show(figure, f"{page}_chart")


def show(figure: charts.Figure, key: str) -> None:
    """Show a chart, and under it the way to take it away.

    Args:
        figure: from lab.view.charts.
        key: names the chart on the page; begins with the page's file name.
    """
    st.vega_lite_chart(
        spec=figure.vega_lite(),
        theme=None,
        width="stretch",
        height="content",
        key=key,
        alt=figure.description,
    )
    page = navigation.file_of(key)
    with st.container(horizontal=True, gap="small"):
        downloads.popover(figure, key, page)
        if key == f"{page}_chart":
            glossary.popover(page)


def table(rows: pd.DataFrame | Iterable[Mapping[str, object]]) -> None:
    """A few rows to be read, whole and wrapped; tables to be searched and sorted are dataframes.

    Args:
        rows: a frame, or its rows by column.
    """
    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))
    st.table(frame, border="horizontal", hide_index=True)


def context_limit(scene: Scenario) -> list[tuple[float, str]]:
    """The model's own context limit as a rule up the chart."""
    if scene.model.max_context is None:
        return []
    return [(float(scene.model.max_context), f"{scene.model.name}: {whole(scene.model.max_context)} at most")]


def beyond(scene: Scenario) -> list[str]:
    """A badge where the scenario's context is longer than the model's own limit."""
    if not scene.past_limit or scene.model.max_context is None:
        return []
    return [f"Beyond the model's {whole(scene.model.max_context)}"]


def formula(symbolic: str, live: Iterable[str]) -> None:
    """The formula in symbols, and again with the live numbers and their units.

    Args:
        symbolic: in LaTeX; what its symbols stand for is said below.
        live: lines in LaTeX with the numbers put in.
    """
    st.subheader("The formula", anchor=False)
    st.latex(symbolic)
    for line in live:
        st.latex(line)
    legend = symbols.legend(symbolic)
    if legend:
        st.caption(f"**Symbols:** {legend}")


def gap(sentences: Iterable[str]) -> None:
    """The distance between prediction and measurement, in words."""
    st.subheader("Prediction against measurement", anchor=False)
    for sentence in sentences:
        st.markdown(sentence)


def misconception(claim: str, instead: str) -> None:
    """What is often said, and what holds."""
    st.info(f"**Often said:** {claim}\n\n**What holds:** {instead}", icon=":material/lightbulb:")


def limits(sentence: str) -> None:
    """One line on what the numbers shown do not show."""
    st.caption(f":material/report: {sentence}")


def closing(file: str) -> None:
    """The place where the exercise will stand, code and sources, and the way to the pages before and after.

    Args:
        file: the page's file name.
    """
    st.container(key=f"exercise_{file}")
    code_drawer.drawer(file)
    references.drawer(file)
    before, after = navigation.neighbours(file)
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        if before is not None:
            st.page_link(before.path, label=f"Before: {before.title}", icon=":material/arrow_back:")
        if after is not None:
            st.page_link(
                after.path,
                label=f"Next: {after.title}",
                icon=":material/arrow_forward:",
                icon_position="right",
            )
