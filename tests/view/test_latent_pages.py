"""A model that keeps a latent, and a mixture of experts: every page counts them alike."""

import pytest

from lab.cost import catalog
from lab.cost.cache import cache_bytes
from lab.cost.guide import advise, problems
from lab.measure import jobs
from lab.view import guide_table, measure_panel
from lab.view.format import bytes_text
from tests.view.pages import open_page, words


@pytest.fixture(autouse=True)
def _no_child_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "machine", lambda: None)
    measure_panel.registry.clear()


@pytest.mark.parametrize("file", ["batch_and_bandwidth", "kv_cache"])
def test_a_latent_model_reads_its_latent_on_every_page(file: str) -> None:
    deepseek = catalog.model("deepseek-v3")
    at = open_page(file, model="deepseek-v3", batch=4, dtype="bf16", **{f"{file}_shown": "recorded"})
    assert "Reads the latent: 576 numbers" in words(at)
    assert "has no bf16 rate" in words(at)
    kept = cache_bytes(deepseek, 4, 1024, "bf16").total_bytes
    shown = kept if file == "kv_cache" else kept / deepseek.layers
    assert at.main.metric[0].value == bytes_text(shown)
    assert "read it at" not in words(at)


def test_a_batch_of_a_mixture_reads_more_experts() -> None:
    assert "The experts make it dearer" in words(open_page("batch_and_bandwidth", model="mixtral-8x7b"))
    assert "experts" not in words(open_page("batch_and_bandwidth")).split("The formula")[0]


def test_what_is_not_modelled_is_not_called_no() -> None:
    advice = advise(problems(catalog.model("deepseek-v3"))[0], 80 * 10**9)
    assert set(guide_table.guide_table(advice, True)["helps"]) == {"not modelled"}
    at = open_page("what_each_trick_changes", model="deepseek-v3")
    assert "Not modelled where K and V differ in width: attention traffic, attention passes" in words(at)
