"""A model that keeps a latent, and a mixture of experts: every page counts them alike."""

import pytest

from lab.cost import attention_flops, catalog
from lab.cost.budget import budget
from lab.cost.cache import cache_bytes
from lab.cost.guide import advise, problems
from lab.cost.shapes import decode
from lab.view import guide_table
from lab.view.format import bytes_text, flops_text
from tests.view.pages import chart, open_page, words

TRICKS = "what_each_trick_changes"


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
    at = open_page(TRICKS, model="deepseek-v3")
    assert "Not modelled where K and V differ in width: attention traffic, attention passes" in words(at)


def test_a_new_token_costs_the_same_on_every_page() -> None:
    deepseek = catalog.model("deepseek-v3")
    step = flops_text(budget(deepseek, decode(1, 1024, "fp16"), latent_form="absorbed").matmul_flops)
    count = open_page("count_the_work", model="deepseek-v3", count_the_work_phase="decode")
    assert count.main.metric[0].value == step
    assert "(absorbed)" in words(count)
    (row,) = [
        row for row in chart(open_page(TRICKS, model="deepseek-v3"))[1]["ends"] if row["row"] == "step FLOPs"
    ]
    assert row["text"].startswith(step)


def test_windows_explain_why_attention_grows_less_than_fourfold() -> None:
    said = words(open_page("training_and_rules", model="gemma-3-27b"))
    assert "52 see a window or chunk shorter than 2,048 tokens" in said
    assert "see a window" not in words(open_page("training_and_rules"))


@pytest.mark.parametrize(
    "file", ["start_here", "how_time_scales", "score_tensor", "roofline", "count_the_work"]
)
def test_where_one_width_stands_for_both_it_is_said(file: str) -> None:
    state = {"context": 4096, "count_the_work_shown": "rate"}
    assert "K and V: 192 wide, both; the model's V: 128" in words(
        open_page(file, model="deepseek-v3", **state)
    )
    assert "wide, both" not in words(open_page(file, model="gpt2", **state))


def test_a_bound_of_wider_values_names_the_flops_that_it_is_of() -> None:
    said = words(open_page("start_here", model="deepseek-v3", context=4096, recorded="nothing"))
    work = flops_text(attention_flops(1, 128, 4096, 4096, 192, True)).replace(" ", r"\ \text{") + "}"
    assert rf"\text{{with 192 for both widths: }} {work}" in said


@pytest.mark.parametrize(
    ("model", "context", "said"),
    [("gpt2", 1024, "Only the core grows so."), ("mistral-7b-v0.1", 16384, "windows and chunks hold")],
)
def test_a_core_that_windows_hold_back_is_not_said_to_grow_fourfold(
    model: str, context: int, said: str
) -> None:
    found = words(open_page("count_the_work", model=model, context=context))
    assert said in found
    assert ("Only the core grows so." in found) == (model == "gpt2")


@pytest.mark.parametrize("file", ["score_tensor", "roofline"])
def test_the_layer_shown_of_a_windowed_model_is_named(file: str) -> None:
    assert "has no layer that sees the whole context" in words(open_page(file, model="mistral-7b-v0.1"))
