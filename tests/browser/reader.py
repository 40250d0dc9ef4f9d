"""What a reader sees and does, in words that the tests can use."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from lab import runs
from lab.view import navigation

# Marks of a chart by kind, read from the SVG that Vega draws.
COUNT_POINTS = """kind => [...document.querySelectorAll('svg.marks path[aria-label]')]
    .filter(path => path.getAttribute('aria-label').startsWith(kind)).length"""


def wait_for_chart(page, file: str) -> None:
    page.get_by_role("heading", level=1, name=navigation.entry(file).question).wait_for()
    page.locator("svg.marks").first.wait_for()
    settle(page)


def settle(page) -> None:
    """Wait until the script of the page has run and nothing is being redrawn."""
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()
    page.wait_for_timeout(150)


def points(page, kind: str) -> int:
    """The points of a kind; measured ones that are noisy, as on any busy machine, count among the measured."""
    kinds = ("measured", "noisy") if kind == "measured" else (kind,)
    return sum(page.evaluate(COUNT_POINTS, f"{each} point") for each in kinds)


def scenario(page) -> dict[str, str]:
    """What the widgets of the scenario bar say."""
    bar = page.locator("[data-testid=stSidebar]")
    return {
        "model": bar.locator(".st-key-model input").input_value(),
        "context": bar.locator(".st-key-context [data-testid=stSliderThumbValue]").inner_text(),
        "batch": bar.locator(".st-key-batch [data-testid=stSliderThumbValue]").inner_text(),
        "dtype": bar.locator(".st-key-dtype button[aria-checked=true]").inner_text(),
        "units": bar.locator(".st-key-units button[aria-checked=true]").inner_text(),
    }


def press(page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def fetch(page, name: str) -> bytes:
    """The file that a button gives."""
    with page.expect_download() as started:
        press(page, name)
    return Path(started.value.path()).read_bytes()


def forget_runs(server, but: str | None = None) -> int:
    """Empty the folder of runs, one kind left: what was measured before must not stand in for what is measured now."""
    paths = list((server.home / "runs").glob("*.json"))
    others = [path for path in paths if runs.load(path).spec.experiment != but]
    for path in others:
        path.unlink()
    return len(paths) - len(others)


def text(page) -> str:
    return page.locator("[data-testid=stMain]").inner_text()


def wait_until(page, condition: Callable[[], bool], timeout_s: float, what: str) -> float:
    """Poll a condition; gives the seconds it took."""
    start = time.monotonic()
    while time.monotonic() - start < timeout_s:
        if condition():
            return time.monotonic() - start
        page.wait_for_timeout(50)
    raise AssertionError(f"after {timeout_s:.0f} s still not: {what}; the page says:\n{text(page)[:1500]}")
