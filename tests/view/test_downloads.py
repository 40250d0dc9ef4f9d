"""Charts that leave their page: every one as SVG and CSV, one of each kind as PNG, all with their caption."""

import io
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import pandas as pd
import pytest
from PIL import Image
from streamlit.testing.v1 import AppTest

from lab.cost import score_bytes
from lab.measure import jobs
from lab.view import bars, charts, downloads, measure_panel, pictures, softmax_steps
from lab.view.axes import bytes_axis
from lab.view.palette import DARK, LIGHT
from lab.view.pictures import Caption
from tests.view import test_charts
from tests.view.pages import FILES, open_page
from tests.view.test_panel import StubQueue

CAPTION = Caption(
    "Naive attention holds $T^{2}$ scores",
    "GPT-2 small, T = 1,024 tokens, batch 1, fp16",
    "Lines: predicted. Points recorded on a card.",
    "/score_tensor?model=GPT-2+small&context=1k",
)
AXIS = bytes_axis("memory of the card", [2**30], binary=True, linear=True)


def bar_figure(palette=LIGHT) -> charts.Figure:
    parts = [
        bars.Part("used", palette.ramp[3]),
        bars.Part("wasted", bars.faded(palette.roles["limit"], palette)),
    ]
    segments = [
        bars.Segment("a", "used", 0, 2**29, "half"),
        bars.Segment("a", "wasted", 2**29, 2**30, "rest"),
    ]
    picture = bars.Bars(["a"], parts, segments, limits=[(2**30, "card")], points=[("a", 2**28, "measured")])
    return bars.draw(picture, x=AXIS, palette=palette, description="memory by use", height_px=200)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[charts.Figure, Caption]]:
    """The charts of the pages run in a test, with their captions, by key."""
    found: dict[str, tuple[charts.Figure, Caption]] = {}
    caption_of = downloads.caption_of

    def remember(figure: charts.Figure, page: str, said: dict) -> Caption:
        caption = caption_of(figure, page, said)
        found[f"{page}_{len(found)}"] = figure, caption
        return caption

    monkeypatch.setattr(downloads, "caption_of", remember)
    monkeypatch.setattr(jobs, "machine", lambda: None)
    return found


def written(svg: bytes) -> str:
    """Everything written in a picture, without spaces: a long line may be broken anywhere."""
    return squeezed("".join(ElementTree.fromstring(svg).itertext()))


def squeezed(words: str) -> str:
    return "".join(words.split())


@pytest.mark.parametrize("file", FILES)
def test_every_chart_of_a_page_can_be_taken_away(file: str, shown) -> None:
    at = open_page(file, model="llama-3-8b", context=2048)
    charts_here = {key: both for key, both in shown.items() if key.startswith(file)}
    assert len(charts_here) == len(at.main.get("vega_lite_chart"))
    buttons = [button.proto.label for button in at.main.get("download_button")]
    for name in downloads.FORMATS:
        assert buttons.count(name) == len(charts_here)
    for figure, caption in charts_here.values():
        picture = written(pictures.svg(figure, caption))
        assert squeezed("Llama-3-8B, T = 2,048 tokens, batch 1, fp16") in picture
        assert squeezed(pictures.plain(caption.heading)) in picture
        assert f"/{file}?model=Llama-3-8B&context=2k" in picture
        table = pd.read_csv(io.BytesIO(pictures.csv(figure, caption)))
        assert len(table) == len(pictures.table(figure)) > 0
        assert not {"x", "y"} & set(table.columns)


@pytest.mark.parametrize(
    "figure",
    [
        test_charts.figure(test_charts.MARKS, theme=DARK),
        bar_figure(DARK),
        softmax_steps.figure(softmax_steps.walk(64, 8), 2, DARK),
    ],
)
def test_a_png_is_a_light_picture_twice_as_sharp_as_the_page(figure: charts.Figure) -> None:
    picture = Image.open(io.BytesIO(pictures.png(figure, CAPTION))).convert("RGB")
    assert picture.width == pictures.WIDTH_PX * pictures.PNG_SCALE
    assert picture.height > figure.spec["height"] * pictures.PNG_SCALE
    assert picture.getpixel((2, 2)) == (255, 255, 255)
    colours = {colour for _, colour in picture.getcolors(2**24)}
    assert len(colours) > 2
    assert not colours & {tuple(bytes.fromhex(one[1:])) for one in DARK.roles.values()}


def test_the_captions_words_are_in_the_picture() -> None:
    picture = written(pictures.svg(bar_figure(), CAPTION))
    for words in ("Naive attention holds T^2 scores", CAPTION.scenario, CAPTION.source, CAPTION.link):
        assert squeezed(words) in picture


@pytest.mark.parametrize("draw", [lambda theme: test_charts.figure(theme=theme), bar_figure])
def test_a_dark_chart_leaves_in_the_light_themes_colours(draw) -> None:
    assert pictures.light(draw(DARK).spec) == draw(LIGHT).spec
    assert pictures.light(draw(LIGHT).spec) == draw(LIGHT).spec


def test_a_table_of_curves_names_quantities_with_their_units() -> None:
    table = pictures.table(test_charts.figure(test_charts.MARKS))
    assert list(table.columns) == [
        "kind", "series", "label", "context_t_tokens", "bytes", "low_bytes", "high_bytes"
    ]  # fmt: skip
    assert list(table["kind"].unique()) == [
        "predicted", "measured here", "recorded", "here, no memory figure yet", "measured here, noisy",
        "refused here",
    ]  # fmt: skip
    measured = table[table["kind"] == "measured here"].iloc[0]
    assert (measured["series"], measured["context_t_tokens"], measured["low_bytes"]) == ("naive", 512, 2**23)


def test_a_table_of_bars_holds_pieces_points_and_limits() -> None:
    table = pictures.table(bar_figure())
    column = "memory_of_the_card_bytes"
    assert list(table["kind"]) == ["bar", "bar", "measured here", "limit"]
    assert list(table[f"end_{column}"][:2]) == [2**29, 2**30]
    assert list(table[column][2:]) == [2**28, 2**30]


def test_the_downloaded_numbers_are_the_cost_models(shown) -> None:
    open_page("score_tensor")
    table = pictures.table(next(both[0] for key, both in shown.items() if key.startswith("score_tensor")))
    scores = table[table["series"] == "one score tensor"].set_index("context_t_tokens")
    peaks = scores["peak_beyond_the_inputs_one_layer_bytes"]
    assert peaks[4096] == score_bytes(1, 12, 4096, 4096, 2)


def test_the_caption_follows_heading_and_badges(shown) -> None:
    at = open_page("start_here")
    (_, caption), *_ = shown.values()
    assert caption.heading == at.subheader[0].value
    assert caption.source == "Lines: predicted. Points recorded on the chapter's card."


def test_the_link_holds_the_whole_scenario(shown) -> None:
    open_page("kv_cache", batch=16, dtype="bf16", units="decimal")
    caption = next(both[1] for key, both in shown.items() if key.startswith("kv_cache"))
    address = urlsplit(caption.link)
    said = {key: values[0] for key, values in parse_qs(address.query).items()}
    assert address.path == "/kv_cache"
    assert said | {"model": "GPT-2 small", "context": "1k", "batch": "16", "dtype": "bf16"} == said
    assert (said["units"], said["device"]) == ("GB", "best device here")


def test_no_file_is_offered_while_a_measurement_redraws_the_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = StubQueue()
    monkeypatch.setattr(jobs, "machine", lambda: None)
    monkeypatch.setattr(measure_panel, "registry", lambda: queue)
    at = open_page("score_tensor")
    assert files_offered(at) == set(downloads.FORMATS)
    at.button(key="measure_score_tensor").click().run()
    assert files_offered(at) == set()
    assert any("as soon as the measurement has ended" in caption.value for caption in at.caption)
    queue.cancel("job-1")
    assert files_offered(at.run()) == set(downloads.FORMATS)


def files_offered(at: AppTest) -> set[str]:
    return {button.proto.label for button in at.main.get("download_button")} & set(downloads.FORMATS)
