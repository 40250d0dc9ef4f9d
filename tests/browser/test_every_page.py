"""On every page: Measure puts a point on its chart, and what the page then offers to take away opens."""

import contextlib
import csv
import io
from xml.etree import ElementTree

import pytest
from PIL import Image
from playwright.sync_api import TimeoutError

from lab import runs
from lab.runs.calibrations import calibrations_of
from lab.view import navigation
from tests.browser.reader import fetch, forget_runs, points, press, settle, text, wait_for_chart, wait_until

pytestmark = pytest.mark.browser

PATIENCE_S = 240
CANCEL_MS = 3000
NOTHING_YET = "Nothing of this kind has been measured on this machine yet."


def drawn(page, file: str) -> bool:
    """Whether what the button of a page measures has come: points on its chart, a roof, or rows of its table."""
    if file == "roofline":
        return "constants found here" in text(page)
    if file in ("serving_budget", "claims"):  # their charts hold budgets and verdicts, which are no points
        return NOTHING_YET not in text(page)
    return points(page, "measured") + points(page, "pending") > 0


def measure(page, file: str) -> None:
    """Press Measure, and Cancel as soon as a point of this job stands on the chart."""
    bar, cancel = (
        page.locator("[data-testid=stProgress]"),
        page.get_by_role("button", name="Cancel", exact=True),
    )
    press(page, "Measure")
    wait_until(page, lambda: bar.count() > 0 or "Finished in" in text(page), 60, "a measurement has begun")
    wait_until(page, lambda: drawn(page, file), PATIENCE_S, "a measured point on the chart")
    with contextlib.suppress(TimeoutError):  # a job that has just ended takes its button along
        if cancel.count():
            cancel.click(timeout=CANCEL_MS)
    ended = ("Finished in", "finished before that")
    wait_until(page, lambda: any(words in text(page) for words in ended), PATIENCE_S, "the end")
    wait_until(page, lambda: cancel.count() == 0, PATIENCE_S, "the page was drawn anew after the end")
    settle(page)


@pytest.mark.parametrize("file", [entry.file for entry in navigation.ENTRIES])
def test_measuring_draws_a_point_and_every_download_opens(new_page, server, file: str) -> None:
    needed = "calibrate" if file == "my_machine" else None  # its chart holds measured against predicted
    if not forget_runs(server, needed) and needed:
        page = new_page("/roofline")
        wait_for_chart(page, "roofline")
        measure(page, "roofline")
    page = new_page(f"/{file}" if file != navigation.ENTRIES[0].file else "/")
    wait_for_chart(page, file)
    assert not drawn(page, file)
    measure(page, file)
    assert drawn(page, file)
    run = runs.from_text(fetch(page, "Run (JSON)").decode())
    assert run.points or calibrations_of(run)
    rows = list(csv.DictReader(io.StringIO(fetch(page, "Points (CSV)").decode())))
    assert len(rows) == len(run.points)
    page.get_by_role("button", name="Download", exact=True).first.click()
    assert min(Image.open(io.BytesIO(fetch(page, "PNG"))).size) > 300
    assert ElementTree.fromstring(fetch(page, "SVG")).tag.endswith("svg")
    assert list(csv.DictReader(io.StringIO(fetch(page, "CSV").decode())))
