"""The KV cache page: crossovers as numbers and lines, mixtures, windows, and what lines of time are made of."""

import pytest

from lab.cost import catalog, serving
from lab.cost.decode_layer import layer_cache_bytes, widest_attention
from lab.cost.deployment import Deployment
from lab.cost.formulas import attention_pairs
from lab.cost.techniques import grouped
from lab.view import crossover
from lab.view.axes import TOKENS
from lab.view.format import bytes_text, digits
from tests.view.pages import chart, faults, line, open_page, sweep, words

PAGE, SHOWN = "kv_cache", "kv_cache_shown"
GPT2 = catalog.model("gpt2")


def test_the_crossover_is_a_line_for_each_form_of_attention() -> None:
    at = open_page(PAGE, **{SHOWN: "heads"})
    shared = grouped(Deployment(model=GPT2, batch=1, context=1, max_context=1)).model
    for key, model in (("own", GPT2), ("gqa", shared)):
        drawn = line(at, key)
        assert list(drawn) == list(TOKENS)
        assert all(drawn[t] == serving.crossover_batch(model, int(t)) for t in drawn)
    assert {row["label"] for row in chart(at)[1]["labels"]} == {
        "MHA, as it is", "GQA, 6 KV heads", "MQA, 1 KV head", "MLA",
    }  # fmt: skip
    heading = at.main.subheader[0].value
    assert "batch 6.6 (MHA); with GQA 12, MQA 70, MLA 34" in heading


def test_the_crossover_stands_as_two_numbers_for_every_model_and_form() -> None:
    at = open_page(PAGE, batch=16, context=4096)
    table = next(one.value for one in at.main.get("table") if "T* at batch 16" in one.value)
    assert len(table) == 1 + 3 + len(crossover.MODELS)
    for model, row in zip((GPT2, catalog.model("deepseek-v3")), (table.iloc[0], table.iloc[-1]), strict=True):
        assert row["B* at T = 4k"] == digits(serving.crossover_batch(model, 4096))
        tokens = float(row["T* at batch 16"].replace(",", ""))
        assert tokens == pytest.approx(serving.crossover_tokens(model, 16), abs=1)


def test_other_models_are_lines_beside_the_chosen_one() -> None:
    at = open_page(PAGE, model="llama-2-7b", **{SHOWN: "models"})
    drawn = {row["series"] for row in chart(at)[1]["lines"]}
    assert drawn == {"own", *crossover.MODELS} - {"llama-2-7b"}


@pytest.mark.parametrize("shown", ["heads", "models"])
def test_the_spec_of_the_crossover_follows_neither_context_nor_model(shown: str) -> None:
    specs = [
        chart(open_page(PAGE, context=context, model=model, **{SHOWN: shown}))[0]
        for context, model in ((1024, "gpt2"), (16384, "falcon-7b"))
    ]
    assert specs[0] == specs[1]


@pytest.mark.parametrize("shown", ["heads", "models"])
def test_every_model_breaks_no_crossover(shown: str) -> None:
    states = [
        {"model": model, "context": TOKENS[-1], "batch": 16, SHOWN: shown} for model in catalog.models()
    ]
    assert sweep(PAGE, [*states, {SHOWN: shown, "kv_cache_axes": "linear"}]) == []


def test_batching_is_not_free_for_the_weights_of_a_mixture() -> None:
    mixtral = catalog.model("mixtral-8x7b")
    said = words(open_page(PAGE, model="mixtral-8x7b", batch=16))
    one, many = (bytes_text(serving.decode_traffic(mixtral, b, 1024).weight_bytes) for b in (1, 16))
    assert f"one sequence reads {one} of them, 16 sequences {many}" in said
    assert "For the weights, yes" not in said
    assert "For the weights, yes" in words(open_page(PAGE, batch=16))


@pytest.mark.parametrize("model", ["mistral-7b-v0.1", "phi-3-mini-4k"])
def test_the_cache_of_one_windowed_layer_adds_up_to_the_whole_models(model: str) -> None:
    at = open_page("batch_and_bandwidth", model=model, context=16384)
    shape = catalog.model(model)
    layer = layer_cache_bytes(widest_attention(shape)[0], 1, 16384, "fp16")
    assert layer * shape.layers == serving.decode_traffic(shape, 1, 16384).cache_bytes
    assert at.main.metric[0].value == bytes_text(layer)
    said = words(at)
    assert "sees the whole context: 32 of 32" not in said
    assert "no layer that sees the whole context" in said
    assert "no layer that sees the whole context" in words(
        open_page(PAGE, model=model, context=16384, **{SHOWN: "recorded"})
    )


@pytest.mark.parametrize(
    ("context", "said"), [(1024, "T = 1k took"), (16384, "T = 16k took"), (8192, "T = 16k")]
)
def test_the_time_heading_stands_at_the_scenarios_context_where_it_was_measured(
    context: int, said: str
) -> None:
    heading = open_page(PAGE, context=context, **{SHOWN: "recorded"}).main.subheader[0].value
    assert said in heading


def test_the_time_heading_prefers_the_scenarios_batch() -> None:
    heading = open_page(PAGE, batch=16, **{SHOWN: "recorded"}).main.subheader[0].value
    assert "for 16:" in heading


def test_lines_of_time_open_into_their_terms() -> None:
    at = open_page(PAGE)
    assert any("terms" in str(one.label) or "added up" in str(one.label) for one in at.main.expander)
    table = next(one.value for one in at.main.get("table") if "limited by" in one.value)
    assert list(table["pass"]) == ["fused attention"]
    assert list(table["device"]) == ["the chapter's card"]


def test_the_two_shapes_of_attention_are_told_apart() -> None:
    at = open_page(PAGE, context=2048)
    table = next(one.value for one in at.main.get("table") if "scores per head" in one.value)
    assert list(table["scores per head"]) == ["T × T = 2,048 × 2,048", "1 × T = 1 × 2,048"]
    kept = [int(text.replace(",", "")) for text in table["of them kept by the mask"]]
    assert kept == [attention_pairs(2048, 2048, True), attention_pairs(1, 2048, True)]
    assert faults(at) == []
