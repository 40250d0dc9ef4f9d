"""The whole model: checked against float64, two attentions over one set of weights, refusals."""

import pytest
import torch
from measured_shapes import job, points_of

from lab.measure.experiments import model
from lab.measure.gpt2 import BODY, EAGER, SDPA, Gpt2, draw_tokens, sharing_weights, true_outputs

pytestmark = pytest.mark.usefixtures("sooner")


@pytest.fixture
def tiny_gpt2(monkeypatch):
    from transformers import GPT2Config, GPT2LMHeadModel

    def load(device, dtype, seed):
        torch.manual_seed(seed)
        config = GPT2Config(
            vocab_size=300, n_positions=64, n_embd=48, n_layer=2, n_head=4, initializer_range=0.2
        )
        eager = GPT2LMHeadModel(config).eval().to(dtype)
        eager.set_attn_implementation(EAGER)
        other = sharing_weights(eager)
        other.set_attn_implementation(SDPA)
        return Gpt2({EAGER: eager, SDPA: other}, "random weights")

    monkeypatch.setattr(model, "load", load)
    return load


def test_the_whole_model_is_checked_and_its_outputs_compared(tiny_gpt2) -> None:
    opened = job("model", lengths=(40, 2048), rounds=3, quick=True)
    timed, counted = (points_of("model", part, opened) for part in ("time", "memory"))
    short = [point for point in timed if point.kv_len == 40]
    assert len(short) == 6
    others = {point.key: point for point in counted}
    assert all(point.merge(others[point.key]).accepted for point in short)
    kernels = {point.implementation: point.kernel for point in short}
    assert "flash_attention_for_cpu" in kernels["sdpa"]
    assert "_softmax" in kernels["eager"]
    assert all(
        point.measures["difference_from_eager"] < 1e-4 for point in short if point.implementation == "sdpa"
    )
    long = [point for point in timed if point.kv_len == 2048]
    assert {point.reason for point in long} == {
        "GPT-2 has learned positions for 1,024 tokens; T = 2,048 is past what it can run"
    }


def test_a_model_with_a_wrong_attention_is_caught(tiny_gpt2) -> None:
    gpt2 = tiny_gpt2(torch.device("cpu"), torch.float32, 0)
    tokens = draw_tokens(300, 1, 40, 0, torch.device("cpu"))
    with torch.inference_mode():
        expected = true_outputs(gpt2, tokens)
        right = {wanted: gpt2.run(EAGER, tokens, wanted) for wanted in expected}
        assert all(model.judge(expected[wanted], output).fault is None for wanted, output in right.items())
        for block in gpt2.models[EAGER].transformer.h:
            block.attn.scale_attn_by_inverse_layer_idx = True
            block.attn.scaling = 1.0
        wrong = gpt2.run(EAGER, tokens, BODY)
    assert model.judge(expected[BODY], wrong).fault is not None


def test_two_attentions_share_one_set_of_weights(tiny_gpt2) -> None:
    gpt2 = tiny_gpt2(torch.device("cpu"), torch.float32, 0)
    first, second = (gpt2.models[name] for name in (EAGER, SDPA))
    assert first.config._attn_implementation == EAGER
    assert second.config._attn_implementation == SDPA
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    assert all(a.data_ptr() == b.data_ptr() for a, b in pairs)


def test_without_transformers_the_model_is_refused_in_words(monkeypatch) -> None:
    monkeypatch.setattr(model.importlib.util, "find_spec", lambda name: None)
    points = points_of("model", "memory", job("model", lengths=(16,), rounds=3))
    assert {point.reason for point in points} == {model.NO_TRANSFORMERS}
