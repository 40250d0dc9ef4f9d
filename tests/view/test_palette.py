import tomllib
from pathlib import Path

import pytest

from lab.runs.spec import IMPLEMENTATIONS
from lab.view.palette import DARK, DASHES, LIGHT, ROLES, SHAPES, contrast, palette, role_of

CONFIG = tomllib.loads(
    (Path(__file__).resolve().parents[2] / ".streamlit" / "config.toml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_every_colour_stands_out_from_the_page(theme) -> None:
    for colour in (*theme.roles.values(), *theme.ramp):
        assert contrast(colour, theme.background) >= 3
    assert contrast(theme.text, theme.background) >= 7


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_no_colour_has_two_meanings(theme) -> None:
    used = [*theme.roles.values(), *theme.ramp]
    assert len(set(used)) == len(used)


def test_dash_and_shape_repeat_what_the_colour_says() -> None:
    assert set(DASHES) == set(SHAPES) == set(ROLES) == set(LIGHT.roles) == set(DARK.roles)
    assert len({tuple(dash) for dash in DASHES.values()}) == len(ROLES)
    assert len(set(SHAPES.values())) == len(ROLES)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_the_ramp_is_sequential(theme) -> None:
    steps = [contrast(colour, theme.background) for colour in theme.ramp]
    assert steps == sorted(steps)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_charts_and_page_share_their_colours(theme) -> None:
    section = CONFIG["theme"][theme.name]
    assert section["backgroundColor"] == theme.background
    assert section["textColor"] == theme.text


@pytest.mark.parametrize("name", ["light", "dark"])
def test_white_on_the_main_button_is_readable(name: str) -> None:
    assert contrast(CONFIG["theme"][name]["primaryColor"], "#FFFFFF") >= 4.5


def test_the_app_stays_local_and_sends_nothing() -> None:
    assert CONFIG["server"]["address"] == "localhost"
    assert CONFIG["browser"]["gatherUsageStats"] is False
    assert CONFIG["server"]["showEmailPrompt"] is False
    assert CONFIG["runner"]["magicEnabled"] is False


def test_every_implementation_has_a_role() -> None:
    assert {role_of(name) for name in IMPLEMENTATIONS} == {"naive", "math", "fused"}
    with pytest.raises(ValueError, match=r"implementation must be one of naive, .*'paged'"):
        role_of("paged")


def test_a_family_spreads_over_the_ramp() -> None:
    assert LIGHT.family(2) == [LIGHT.ramp[0], LIGHT.ramp[-1]]
    assert LIGHT.family(len(LIGHT.ramp)) == list(LIGHT.ramp)
    assert palette(True) is DARK
    with pytest.raises(ValueError, match="count must be from 1 to 5, got 6"):
        LIGHT.family(6)
