"""The budget of a forward pass: exact against PyTorch's FLOP counter, and the laws it obeys."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from lab.cost.budget import budget
from lab.cost.catalog import model, models
from lab.cost.crossings import crossing_context
from lab.cost.recurrent import short_convolution
from lab.cost.shapes import LayerKind, ModelShape, Workload, decode, prefill
from tests.cost import tiny_models

BATCH, LENGTH = 2, 24
small = st.integers(1, 40)


@pytest.fixture(scope="module", params=tiny_models.MODELS)
def tiny(request: pytest.FixtureRequest) -> tuple[ModelShape, torch.nn.Module]:
    return tiny_models.MODELS[request.param]()


def counted(module: torch.nn.Module, ids: torch.Tensor, **options) -> tuple[int, object]:
    """Count what the counter sees: mm, addmm, bmm, baddbmm and attention kernels.

    It does not see softmax, norms, rotary embeddings, activations, biases of mm, the embedding look-up, and
    on the CPU the fused attention kernel (0 FLOPs): hence eager attention here.
    """
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        output = module(ids, use_cache=True, **options)
    return counter.get_total_flops(), output


def test_prefill_and_decode_equal_the_flop_counter(tiny) -> None:
    """Eager attention multiplies every pair and masks afterwards: dense counting is what it runs.

    transformers keeps MLA's latent rows and expands all of them again in every pass.
    """
    shape, module = tiny
    ids = torch.randint(0, tiny_models.VOCAB, (BATCH, LENGTH + 1))
    flops, output = counted(module, ids[:, :LENGTH])
    assert budget(shape, prefill(BATCH, LENGTH, "fp32", causal=False)).matmul_flops == flops
    name = "cache" if hasattr(output, "cache") else "past_key_values"  # renamed within transformers 5
    flops, _ = counted(module, ids[:, LENGTH:], **{name: output[name]})
    step = budget(shape, decode(BATCH, LENGTH + 1, "fp32"), latent_form="re-expanded")
    assert step.matmul_flops == flops


def test_logits_of_the_last_position_save_what_the_counter_says(tiny) -> None:
    shape, module = tiny
    ids = torch.randint(0, tiny_models.VOCAB, (BATCH, LENGTH))
    flops, output = counted(module, ids, logits_to_keep=1)
    work = prefill(BATCH, LENGTH, "fp32", causal=False)
    last = budget(shape, work, logits="last")
    assert last.matmul_flops == flops
    assert last.logits_bytes == output.logits.numel() * 4
    body = budget(shape, work, logits="none")
    assert (body.logits_bytes, last.matmul_flops - body.matmul_flops) == (0, last.lm_head_flops)


def test_absorbed_latent_attention_equals_the_flop_counter() -> None:
    """One decode step with the up-projections applied to Q and to the output instead of to the cache."""
    block = tiny_models.attention(
        4,
        head_dim=24,
        head_dim_v=12,
        latent=tiny_models.Latent(kv_rank=16, rope_dim=8, nope_dim=16, q_rank=24),
    )
    shape = tiny_models.shape([tiny_models.layer(block, tiny_models.dense())], (0,))
    hidden, cache = torch.randn(BATCH, 1, 64), torch.randn(BATCH, 1, LENGTH, 24)  # the latent and rotary rows
    q_a, q_b, kv_a, out = (torch.randn(*size) for size in ((64, 24), (24, 96), (64, 24), (48, 64)))
    up_keys, up_values = torch.randn(4, 16, 16), torch.randn(4, 16, 12)
    with FlopCounterMode(display=False) as counter:
        queries = (hidden @ q_a @ q_b).view(BATCH, 1, 4, 24).transpose(1, 2)
        hidden @ kv_a
        absorbed = torch.cat([queries[..., :16] @ up_keys, queries[..., 16:]], dim=-1)
        scores = torch.softmax(absorbed @ cache.transpose(-1, -2), dim=-1)
        heads = scores @ cache[..., :16] @ up_values
        heads.transpose(1, 2).reshape(BATCH, 1, 48) @ out
    step = budget(shape, decode(BATCH, LENGTH, "fp32"), logits="none", latent_form="absorbed").layers[0]
    assert step.projection_flops + step.core_flops == counter.get_total_flops()


def one_layer(kv_heads: int = 2, **changes) -> ModelShape:
    return tiny_models.shape(
        [tiny_models.layer(tiny_models.attention(kv_heads, **changes), tiny_models.dense())], (0,)
    )


@given(steps=small, start=st.integers(0, 40), batch=small, window=st.none() | small)
def test_decode_steps_sum_to_the_causal_prefill(
    steps: int, start: int, batch: int, window: int | None
) -> None:
    shape = one_layer(window=window)
    total = start + steps
    by_step = [budget(shape, decode(batch, context, "fp32")) for context in range(start + 1, total + 1)]
    at_once = budget(shape, Workload(batch, total, steps, "fp32"))
    assert sum(step.matmul_flops for step in by_step) == at_once.matmul_flops
    assert sum(step.softmax_operations for step in by_step) == at_once.softmax_operations


@given(context=small, q_len=small, beyond=st.integers(0, 50))
def test_a_window_or_chunk_around_everything_is_full_attention(context: int, q_len: int, beyond: int) -> None:
    work = Workload(1, context + q_len, q_len, "fp32")
    full = budget(one_layer(), work).matmul_flops
    for span in ("window", "chunk"):
        assert budget(one_layer(**{span: context + q_len + beyond}), work).matmul_flops == full


def test_as_many_kv_heads_as_heads_is_multi_head_attention() -> None:
    work = prefill(2, 32, "fp32")
    grouped, multi = budget(one_layer(2), work), budget(one_layer(4), work)
    assert grouped.core_flops == multi.core_flops  # grouping never changes the core
    assert grouped.projection_flops < multi.projection_flops
    assert multi.projection_flops == 64 * 4 * 2 * 64 * 64


@given(length=small)
def test_doubling_the_prompt(length: int) -> None:
    shape = one_layer()
    once, twice = (budget(shape, prefill(1, size, "fp32", causal=False)) for size in (length, 2 * length))
    assert twice.core_flops == 4 * once.core_flops
    assert twice.projection_flops == 2 * once.projection_flops
    assert twice.feed_forward_flops == 2 * once.feed_forward_flops
    assert twice.lm_head_flops == 2 * once.lm_head_flops


def test_every_model_of_the_catalogue_has_positive_whole_terms_that_add_up() -> None:
    for shape in models().values():
        for work in (prefill(2, 4096, "bf16"), decode(2, 4096, "bf16")):
            total = budget(shape, work)
            assert all(type(term.flops) is int and term.flops > 0 for term in total.terms)
            assert sum(term.total_flops for term in total.terms) == total.matmul_flops
            assert 0 < total.attention_share < 1


def test_softmax_is_apart_from_matmul_flops() -> None:
    total = budget(one_layer(), prefill(1, 32, "fp32"))
    assert total.softmax_operations == 5 * 4 * (32 * 33 // 2)
    assert total.matmul_flops == sum(term.total_flops for term in total.terms)
    assert not any("softmax" in term.name for term in total.terms)


def test_tensors_of_the_pass() -> None:
    total = budget(model("gpt2"), prefill(1, 1024, "fp32"))
    assert total.logits_bytes == 1024 * 50257 * 4
    assert total.score_bytes == 12 * 1024 * 1024 * 4
    assert total.mask_bytes == 1024 * 1024


def test_a_recurrent_layer_costs_the_same_for_every_token_and_is_no_attention() -> None:
    mixer = short_convolution(64, kernel=3, bias=False)
    kind = LayerKind(attention=None, recurrent=mixer, feed_forward=tiny_models.dense(), norm_parameters=0)
    attending = tiny_models.layer(tiny_models.attention(), tiny_models.dense())
    hybrid = tiny_models.shape([attending, kind], (0, 1, 1))
    early, late = (budget(hybrid, decode(1, context, "fp32")) for context in (10, 10_000))
    assert early.layers[1].matmul_flops == late.layers[1].matmul_flops
    assert (early.layers[1].core_flops, early.state_flops) == (0, 2 * 2 * 64 * 3)
    assert late.core_flops == 1000 * early.core_flops


def test_cross_attention_projects_the_other_sequence_once_and_scores_it_every_step() -> None:
    cross = tiny_models.attention(4, source_hidden=48)
    kind = LayerKind(
        attention=tiny_models.attention(4),
        cross_attention=cross,
        feed_forward=tiny_models.dense(),
        norm_parameters=0,
    )
    shape = tiny_models.shape([kind], (0,))
    first = budget(shape, prefill(1, 10, "fp32"), source_tokens=30).layers[0]
    assert first.projections["cross k"] == 2 * 48 * 64 * 30
    assert first.core["cross QKᵀ"] == 2 * 64 * 10 * 30
    step = budget(shape, decode(1, 11, "fp32"), source_tokens=30).layers[0]
    assert step.projections["cross k"] == 0
    assert step.core["cross PV"] == 2 * 64 * 30
    with pytest.raises(ValueError, match="source_tokens must be given"):
        budget(shape, decode(1, 11, "fp32"))


@pytest.mark.parametrize(
    ("causal", "logits", "tokens"),
    [(False, "all", 6703), (True, "all", 13404), (False, "none", 4608), (True, "none", 9215)],
)
def test_attention_reaches_half_of_gpt2(causal: bool, logits: str, tokens: int) -> None:
    assert crossing_context(model("gpt2"), causal=causal, logits=logits) == tokens


@pytest.mark.parametrize(("causal", "tokens"), [(False, 16_512), (True, 33_023)])
def test_attention_passes_the_feed_forward_of_llama_2_near_16k_dense_and_33k_causal(causal, tokens) -> None:
    """Not at 8k, as a page says that counts 4·N·d² for a gated block: 2.2 TFLOPs a layer at 8,192."""
    llama = model("llama-2-7b")
    assert crossing_context(llama, against="feed-forward", causal=causal) == tokens
    layer = budget(llama, prefill(1, 8192, "fp16", causal=causal)).layers[0]
    assert f"{layer.feed_forward_flops / 1e12:.1f}" == "2.2"
    assert f"{layer.core_flops / 1e12:.2f}" == ("0.55" if causal else "1.10")


def test_the_crossing_is_the_first_such_context() -> None:
    for name in ("gpt2", "gemma-2-9b", "deepseek-v2-lite"):
        tokens = crossing_context(model(name))
        shares = [budget(model(name), prefill(1, t, "fp16")).attention_share for t in (tokens - 1, tokens)]
        assert shares[0] < 0.5 <= shares[1]


def test_windows_everywhere_never_cross() -> None:
    assert crossing_context(model("mistral-7b-v0.1")) is None
    assert crossing_context(one_layer(chunk=8)) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: budget(one_layer(), prefill(1, 8, "fp32"), logits="some"),
            "logits must be one of all, last, none",
        ),
        (lambda: budget(one_layer(), prefill(1, 8, "fp32"), latent_form="x"), "latent_form must be one of"),
        (lambda: crossing_context(one_layer(), against="ffn"), "against must be one of feed-forward, rest"),
        (lambda: crossing_context(one_layer(), phase="train"), "phase must be prefill or decode"),
        (lambda: replace(prefill(1, 8, "fp32"), q_len=9), "q_len must be at most context"),
    ],
)
def test_unknown_options_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
