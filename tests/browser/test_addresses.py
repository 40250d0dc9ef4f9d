"""Links: whatever way a reader comes to a page, the scenario in the address is the one on the page."""

import pytest

from lab.view import navigation
from lab.view.palette import DARK, FUSED, LIGHT, MATH, NAIVE, NAMES
from tests.browser.reader import scenario, text, wait_for_chart, wait_until

pytestmark = pytest.mark.browser
ROLES = [NAMES[role] for role in (NAIVE, MATH, FUSED)]

ASKED = {"model": "Llama-3-8B", "context": "8k", "batch": "16", "dtype": "bf16", "units": "GB"}
QUERY = "?" + "&".join(f"{key}={value}" for key, value in ASKED.items())


def menu(page, section: str, title: str) -> None:
    page.locator("[data-testid=stTopNavSection]", has_text=section).click()
    page.locator("[data-testid=stTopNavDropdownLink]", has_text=title).click()


@pytest.mark.parametrize("file", ["kv_cache", "score_tensor"])
def test_a_cold_deep_link_shows_its_page_with_its_scenario(new_server, new_page, file: str) -> None:
    page = new_page(f"/{file}{QUERY}", server=new_server())
    wait_for_chart(page, file)
    assert scenario(page) == ASKED


def test_warm_link_back_reload_and_page_to_page_keep_the_scenario(new_page) -> None:
    page = new_page(f"/score_tensor{QUERY}")
    wait_for_chart(page, "score_tensor")
    assert scenario(page) == ASKED

    menu(page, "Decode", "KV cache")
    wait_for_chart(page, "kv_cache")
    assert scenario(page) == ASKED

    neighbour = navigation.neighbours("kv_cache")[0]
    page.get_by_role("link", name=f"Before: {neighbour.title}").click()
    wait_for_chart(page, neighbour.file)
    assert scenario(page) == ASKED

    page.go_back()
    wait_for_chart(page, "kv_cache")
    assert scenario(page) == ASKED

    page.reload()
    wait_for_chart(page, "kv_cache")
    assert scenario(page) == ASKED

    menu(page, "Start", "Start here")
    wait_for_chart(page, "start_here")
    assert scenario(page) == ASKED


def test_a_change_of_the_scenario_goes_into_the_address_and_moves_the_chart(new_page) -> None:
    page = new_page("/score_tensor")
    wait_for_chart(page, "score_tensor")
    heading = page.locator("h3").first
    assert "At T = 1k" in heading.inner_text()
    page.locator(".st-key-context input[type=range]").press("ArrowRight")
    page.wait_for_url("**context=2k**")
    wait_until(page, lambda: "At T = 2k" in heading.inner_text(), 60, "the heading follows the slider")


def test_an_unknown_label_falls_back_with_a_sentence(new_page) -> None:
    page = new_page("/kv_cache?model=GPT-9&context=4k")
    wait_for_chart(page, "kv_cache")
    assert "“GPT-9”, which is not one of the options here; showing GPT-2 small" in text(page)
    assert scenario(page)["context"] == "4k"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_question_controls_measure_and_chart_are_above_the_fold(new_page, scheme: str) -> None:
    for file, address in (("start_here", "/"), ("score_tensor", "/score_tensor"), ("kv_cache", "/kv_cache")):
        page = new_page(address, color_scheme=scheme)
        wait_for_chart(page, file)
        for part in ("h1", f".st-key-measure_{file}", "[data-testid=stVegaLiteChart]"):
            box = page.locator(part).first.bounding_box()
            assert box["y"] + box["height"] <= 768, (
                f"{file}: {part} ends at {box['y'] + box['height']:.0f} px"
            )
        size = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert size[0] <= size[1]


def test_the_chart_follows_a_change_of_theme(new_page) -> None:
    page = new_page("/score_tensor", color_scheme="light")
    wait_for_chart(page, "score_tensor")

    def colours() -> set[str]:
        return set(
            page.evaluate("[...document.querySelectorAll('svg.marks text')].map(t => t.getAttribute('fill'))")
        )

    assert LIGHT.text in colours()
    page.emulate_media(color_scheme="dark")
    wait_until(page, lambda: DARK.text in colours() and LIGHT.text not in colours(), 60, "the chart is dark")


def test_the_pointer_reads_every_line_at_its_context(new_page) -> None:
    page = new_page("/score_tensor")
    wait_for_chart(page, "score_tensor")
    box = page.locator("svg.marks").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tooltip = page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    said = tooltip.inner_text()
    assert all(name in said for name in ("context T (tokens)", "one score tensor", *ROLES))
    assert "GiB" in said
