"""Whole GPT-2 by module: what the terms add up to, and the chapter's six printed times."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lab.cost.catalog import card, model
from lab.cost.chapter_card import SHEET_ID
from lab.cost.chapter_score import gpt2_cells
from lab.cost.prediction import predict_attention
from lab.cost.prediction_model import predict_gpt2
from lab.cost.rates import Curve
from lab.cost.score import score
from tests.cost.calibrations import constant, flat, plain

GPT2 = model("gpt2")
CARD = plain(fused={"efficient/64x64": constant(0.5)})


def predict(**changes):
    return predict_gpt2(GPT2, CARD, **{"batch": 1, "tokens": 256, "attention": "efficient", **changes})


def term(prediction, part: str):
    return next(term for term in prediction.terms if part in term.name)


def test_products_with_weights_are_two_flops_a_weight_and_token() -> None:
    prediction = predict()
    products = [t for t in prediction.terms if "projection" in t.name or "feed-forward" in t.name]
    weights = 12 * (768 * 2304 + 768 * 768 + 2 * 768 * 3072)
    assert sum(t.flops for t in products) == 2 * weights * 256
    assert term(prediction, "LM head").flops == 2 * 256 * 768 * 50257


def test_terms_add_up_and_layers_are_counted() -> None:
    prediction = predict()
    assert prediction.seconds == pytest.approx(sum(t.seconds for t in prediction.terms))
    one = predict_gpt2(replace(GPT2, order=(0,)), CARD, batch=1, tokens=256, attention="efficient")
    for part in ("GELU", "q, k, v projection", "attention, efficient"):
        assert term(prediction, part).seconds == pytest.approx(12 * term(one, part).seconds)
    assert term(prediction, "LM head").seconds == term(one, "LM head").seconds


def test_attention_is_the_predictors_own() -> None:
    shape = {"batch": 1, "heads": 12, "kv_heads": 12, "q_len": 256, "kv_len": 256, "head_dim": 64}
    alone = predict_attention("efficient", CARD, **shape, causal=True)
    assert term(predict(), "attention").seconds == pytest.approx(12 * alone.seconds)


def test_eager_and_sdpa_differ_in_attention_alone() -> None:
    eager, sdpa = predict(attention="eager"), predict()
    others = [[t for t in p.terms if "attention" not in t.name] for p in (eager, sdpa)]
    assert others[0] == others[1]
    assert term(eager, "attention, eager").seconds > term(sdpa, "attention, efficient").seconds


def test_logits_of_the_last_row_or_none_shorten_the_head_alone() -> None:
    every, last, none = (predict(logits=name) for name in ("all", "last", "none"))
    assert term(every, "LM head").flops == 256 * term(last, "LM head").flops
    assert none.terms == every.terms[:-1] == last.terms[:-1]


def test_the_gelu_is_eight_passes_unless_it_was_measured() -> None:
    elements = 256 * 3072
    assert term(predict(), "GELU").seconds == pytest.approx(12 * elements * 18 * 4 / 1e11)
    assert predict().notes == ("the GELU's passes are priced by their bytes",)
    measured = replace(CARD, elements={"gelu_new": flat(1e9)})
    prediction = predict_gpt2(GPT2, measured, batch=1, tokens=256, attention="efficient")
    assert term(prediction, "GELU").seconds == pytest.approx(12 * elements / 1e9)
    assert prediction.notes == ()


def test_a_measured_linear_rate_is_used_but_never_beats_reading_the_weights() -> None:
    fast = replace(CARD, matmuls={"linear/768": Curve(((1.0, 1e15),), "rows", "FLOP/s", "test")})
    prediction = predict_gpt2(GPT2, fast, batch=1, tokens=1, attention="efficient")
    up = term(prediction, "feed-forward, up")
    assert up.seconds == pytest.approx(up.bytes_moved / 1e11)


def test_the_chapters_gpt2_times_are_met_within_12_per_cent_with_nothing_fitted_to_them() -> None:
    data = Path(__file__).parents[2] / "lab" / "data" / "chapter_measurements.json"
    cells = gpt2_cells(json.loads(data.read_text("utf-8")), card(SHEET_ID), GPT2)
    result = score(cells)
    assert result.cells == 6
    assert result.mean_absolute_error == pytest.approx(0.115, abs=2e-3)
    assert result.worst.error == pytest.approx(0.182, abs=2e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens": 1025}, "tokens must be 1 to 1024 for gpt2, got 1025"),
        ({"attention": "cudnn"}, "attention must be eager, math, flash or efficient, got 'cudnn'"),
        ({"logits": "some"}, "logits must be one of all, last, none, got 'some'"),
    ],
)
def test_bad_requests_are_refused_in_words(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        predict(**changes)


def test_other_families_are_refused() -> None:
    with pytest.raises(
        ValueError, match="model must be of the family gpt2, whose modules are known, got 'llama'"
    ):
        predict_gpt2(model("llama-2-7b"), CARD, batch=1, tokens=8, attention="efficient")
