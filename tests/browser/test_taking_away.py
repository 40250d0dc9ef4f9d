"""What a reader takes along or looks up: charts as files, words, code, in a real browser."""

import csv
import io
from xml.etree import ElementTree

import pytest
from PIL import Image

from lab.view import code_drawer
from lab.view.palette import LIGHT
from tests.browser.reader import fetch, press, scenario, settle, text, wait_for_chart

pytestmark = pytest.mark.browser

QUERY = "?model=Llama-3-8B&context=8k&dtype=bf16"


def test_a_chart_is_downloaded_in_three_formats_from_a_dark_page(new_page) -> None:
    page = new_page(f"/score_tensor{QUERY}", color_scheme="dark")
    wait_for_chart(page, "score_tensor")
    page.get_by_role("button", name="Download", exact=True).first.click()
    picture = Image.open(io.BytesIO(fetch(page, "PNG"))).convert("RGB")
    assert picture.getpixel((2, 2)) == tuple(bytes.fromhex(LIGHT.background[1:]))
    drawn = "".join(ElementTree.fromstring(fetch(page, "SVG")).itertext())
    assert "Llama-3-8B, T = 8,192 tokens, batch 1, bf16" in drawn
    rows = list(csv.DictReader(io.StringIO(fetch(page, "CSV").decode())))
    assert {row["kind"] for row in rows} >= {"predicted", "limit"}
    assert all(float(row["context_t_tokens"]) for row in rows if row["kind"] == "predicted")
    page.goto(rows[0]["link"])
    wait_for_chart(page, "score_tensor")
    asked = {"model": "Llama-3-8B", "context": "8k", "batch": "1", "dtype": "bf16", "units": "GiB"}
    assert scenario(page) == asked


def test_words_code_and_the_whole_glossary_are_one_click_away(new_page) -> None:
    page = new_page("/roofline")
    wait_for_chart(page, "roofline")
    press(page, "Words on this page")
    page.locator("[data-testid=stPopoverBody]").get_by_text("Arithmetic intensity", exact=True).wait_for()
    page.keyboard.press("Escape")
    page.get_by_text("Show the code", exact=True).click()
    code = code_drawer.source("cost.predict:bound_seconds").code.splitlines()[0]
    page.locator("[data-testid=stCode]", has_text=code).wait_for()
    settle(page)
    press(page, "Glossary")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Find").fill("running maximum")
    dialog.get_by_label("Find").press("Enter")
    dialog.get_by_text("Verdict", exact=True).wait_for(state="detached")
    dialog.get_by_role("link", name="See it on: Which kernel ran").click()
    wait_for_chart(page, "which_kernel_ran")
    assert "See it on" not in text(page)
