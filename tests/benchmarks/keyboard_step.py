"""From a key on a slider to the repainted chart: every page against a page of one slider and one chart.

Run from the repository root: python -m tests.benchmarks.keyboard_step [PAGE ...]. Prints the median of each page, its
ratio to the reference page measured in the same turns, and ends with code 1 where a ratio is beyond the limit.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from lab.view import navigation
from tests.browser.conftest import FLAGS, find_chromium, running
from tests.browser.reader import settle, wait_for_chart

LARGEST_RATIO = 1.25
STEPS = 20
WITHOUT_SLIDER = ("my_machine", "claims")  # nothing on their charts follows a slider
SLIDERS = {"which_kernel_ran": "which_kernel_ran_step", "kv_cache": "batch"}
"""Where the main control is not the context: its key."""
PATIENCE_MS = 60_000
REFERENCE = """
import streamlit as st
from lab.view import charts, frames, palette
from lab.view.axes import TOKENS, bytes_axis, tokens_axis
from lab.view.format import tokens_label

st.set_page_config(layout="wide")
T = st.select_slider("T", TOKENS, 1024, format_func=tokens_label, key="context")
series = [charts.role_series("naive", "naive", "naive", palette.LIGHT)]
curves = {"naive": [(t, 24.0 * t * t) for t in TOKENS]}
x, y = tokens_axis("T"), bytes_axis("bytes", [y for _, y in curves["naive"]], binary=True)
data = frames.bundle(
    curves, [], series, frames.Extras(marker_x=T), x=x, y=y, height_px=430, at=str, value=str
)
figure = charts.curves(data, series, x=x, y=y, palette=palette.LIGHT, description="one line")
st.vega_lite_chart(spec=figure.vega_lite(), theme=None, width="stretch", height="content", key="chart")
"""
# Milliseconds from the key to the frame after the chart's marks first change.
WATCH = """patience => { window.step = new Promise((done, fail) => {
    setTimeout(() => fail(new Error("no chart was painted anew")), patience);
    const start = new Promise(begin => document.addEventListener(
        'keydown', () => begin(performance.now()), {capture: true, once: true}));
    const watch = new MutationObserver(records => {
        if (!records.some(r => r.target.closest?.('svg.marks') || [...r.addedNodes].some(
            n => n.querySelector?.('svg.marks') || n.closest?.('svg.marks')))) return;
        watch.disconnect();
        requestAnimationFrame(() => start.then(begun => done(performance.now() - begun)));
    });
    watch.observe(document.body, {subtree: true, childList: true, attributes: true});
}); }"""


def step_ms(page: Any, slider: str, key: str) -> float:
    """Press a key on a slider; the time until a chart is painted anew."""
    page.evaluate(WATCH, PATIENCE_MS)
    page.locator(f".st-key-{slider} input[type=range]").press(key)
    taken = page.evaluate("window.step")
    settle(page)
    return float(taken)


def medians(page: Any, slider: str, reference: Any) -> tuple[float, float]:
    """Steps there and back in turn on both pages; the first pair warms up.

    The batch, which begins at its least, goes up first; the others, which may begin at their most, go down.
    """
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(STEPS + 2):
        for which, name, times in zip((page, reference), (slider, "context"), taken, strict=True):
            keys = ("ArrowRight", "ArrowLeft") if name == "batch" else ("ArrowLeft", "ArrowRight")
            which.bring_to_front()
            times.append(step_ms(which, name, keys[number % 2]))
    return statistics.median(taken[0][2:]), statistics.median(taken[1][2:])


def main(wanted: list[str]) -> int:
    files = [entry.file for entry in navigation.ENTRIES if entry.file not in WITHOUT_SLIDER]
    slow = 0
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        one_chart = Path(folder, "reference.py")
        one_chart.write_text(REFERENCE, encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        with running(Path(folder)) as server, running(Path(folder), one_chart) as small:
            context = browser.new_context(viewport={"width": 1024, "height": 768})
            reference, page = context.new_page(), context.new_page()
            reference.goto(small.url)
            reference.locator("svg.marks").first.wait_for()
            for file in wanted or files:
                page.goto(f"{server.url}/{file}" if file != files[0] else server.url)
                wait_for_chart(page, file)
                own, least = medians(page, SLIDERS.get(file, "context"), reference)
                slow += own > LARGEST_RATIO * least
                print(f"{file:26} {own:7.0f} ms {least:7.0f} ms {own / least:6.2f}", flush=True)
        browser.close()
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
