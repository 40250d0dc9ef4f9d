"""Shapes: what a layer holds, what it refuses, and the sums over kinds of layers."""

import dataclasses
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cost.catalog import model, models
from lab.cost.configs import from_config
from lab.cost.layers import Attention, FeedForward, Latent, Matrix
from lab.cost.recurrent import gated_delta_net, mamba, mamba2, short_convolution
from lab.cost.shapes import LayerKind, ModelShape, Workload, decode, prefill, weight_bytes
from tests.cost.family_configs import BAMBA, GROUPED, JAMBA

SIZES = st.integers(1, 2**20)
BLOCK = FeedForward(hidden=64, intermediate=128, gated=True)


def attention(**changes):
    sizes = {"hidden": 64, "heads": 8, "kv_heads": 2, "head_dim": 16, "head_dim_v": 16}
    return Attention(**sizes | changes)


def shape_of(*kinds, order=None, **changes):
    fields = {
        "id": "small",
        "name": "Small",
        "family": "llama",
        "hidden": 64,
        "vocab": 100,
        "tied_embeddings": False,
        "final_norm_parameters": 64,
    }
    return ModelShape(kinds=kinds, order=order or tuple(range(len(kinds))), **fields | changes)


def plain_kind(**changes):
    return LayerKind(attention=attention(**changes), feed_forward=BLOCK, norm_parameters=128)


def test_kinds_of_attention_are_named_by_their_heads():
    assert attention(kv_heads=8).kind == "MHA"
    assert attention(kv_heads=2).kind == "GQA"
    assert attention(kv_heads=1).kind == "MQA"
    latent = Latent(kv_rank=32, rope_dim=4, nope_dim=12)
    assert attention(kv_heads=8, latent=latent).kind == "MLA"


def test_k_and_v_may_differ_in_width_and_are_cached_apart():
    assert attention(head_dim=24, head_dim_v=16).cached_elements_per_token() == (2 * 24, 2 * 16)


def test_a_latent_layer_caches_one_vector_natively_and_every_head_when_expanded():
    latent = Latent(kv_rank=32, rope_dim=4, nope_dim=12, q_rank=24)
    block = attention(kv_heads=8, head_dim_v=10, latent=latent)
    assert block.cached_elements_per_token() == (36, 0)
    assert block.cached_elements_per_token("latent") == (36, 0)
    assert block.cached_elements_per_token("expanded") == (8 * 16, 8 * 10)
    with pytest.raises(ValueError, match=r"^form 'latent' needs MLA, this attention is GQA\.$"):
        attention().cached_elements_per_token("latent")
    with pytest.raises(ValueError, match="form must be 'native', 'latent' or 'expanded', got 'odd'"):
        attention().cached_elements_per_token("odd")


def test_a_layer_that_shares_a_cache_projects_and_keeps_nothing_of_its_own():
    shared = attention(shares_cache=True)
    assert shared.cached_elements_per_token() == (0, 0)
    assert [matrix.name for matrix in shared.matrices] == ["q", "out"]


@given(context=SIZES, window=SIZES)
def test_windows_and_chunks_cap_the_cells_and_cross_attention_has_its_own(context, window):
    assert attention().cells(context) == context
    assert attention(window=window).cells(context) == min(context, window)
    assert attention(chunk=window).cells(context) == min(context, window)
    assert attention(source_hidden=32).cells(context, source_tokens=window) == window


@given(hidden=SIZES, heads=st.integers(1, 64), head_dim=st.integers(1, 256))
def test_gqa_with_as_many_kv_heads_as_heads_is_mha(hidden, heads, head_dim):
    sizes = {"hidden": hidden, "heads": heads, "head_dim": head_dim, "head_dim_v": head_dim}
    full, grouped = Attention(kv_heads=heads, **sizes), Attention(kv_heads=1, **sizes)
    assert full.parameters == 4 * hidden * heads * head_dim
    assert full.parameters - grouped.parameters == 2 * hidden * (heads - 1) * head_dim


@given(inputs=SIZES, outputs=SIZES, copies=st.integers(1, 100), bias=st.booleans())
def test_a_matrix_costs_two_flops_a_weight_whatever_its_bias(inputs, outputs, copies, bias):
    matrix = Matrix("m", inputs, outputs, bias, copies, 1)
    assert matrix.flops_per_token == 2 * inputs * outputs
    assert matrix.parameters == copies * (inputs + bias) * outputs
    assert matrix.active_parameters * copies == matrix.parameters


def test_a_mixture_stores_all_experts_and_uses_the_active_ones():
    block = FeedForward(
        hidden=64, intermediate=32, gated=True, experts=8, active_experts=2, shared_intermediate=16
    )
    expert, shared, router = 3 * 64 * 32, 3 * 64 * 16, 64 * 8
    assert block.parameters == 8 * expert + shared + router
    assert block.active_parameters == 2 * expert + shared + router


def test_recurrent_states_do_not_grow_and_are_counted_apart_from_k_and_v():
    mixer = gated_delta_net(64, key_heads=2, value_heads=4, key_dim=8, value_dim=10, conv_kernel=4)
    recurrent = LayerKind(attention=None, feed_forward=BLOCK, norm_parameters=128, recurrent=mixer)
    shape = shape_of(recurrent, plain_kind(), order=(0, 0, 0, 1))
    assert shape.state_elements == 3 * 4 * 8 * 10
    assert shape.conv_elements == 3 * (2 * 16 + 40) * 3
    assert shape.cached_elements(1000) == (1000 * 32, 1000 * 32)
    assert mixer.core_flops_per_token == 2 * (3 * 320 + 72 * 4)
    assert shape.windows == (None, None)


def test_the_heads_of_a_hybrid_are_those_of_its_full_attention():
    local, full = plain_kind(window=16, head_dim=8), plain_kind(head_dim=32)
    assert shape_of(local, full).head_dim == 32
    assert shape_of(local).head_dim == 8


def test_cross_attention_keeps_the_other_sequence_beside_its_own():
    kind = LayerKind(
        attention=attention(),
        feed_forward=BLOCK,
        norm_parameters=0,
        cross_attention=attention(source_hidden=48),
    )
    shape = shape_of(kind)
    assert kind.cross_attention.parameters == 64 * 128 * 2 + 48 * 32 * 2
    assert shape.cached_elements(10, source_tokens=7) == (17 * 32, 17 * 32)
    assert len(kind.attentions) == 2


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kv_heads": 3}, "Attention: kv_heads must divide heads, got kv_heads=3 for heads=8."),
        ({"heads": 0}, "Attention: heads must be a whole number of at least 1, got 0."),
        ({"head_dim": 16.0}, "Attention: head_dim must be a whole number of at least 1, got 16.0."),
        ({"heads": True}, "Attention: heads must be a whole number of at least 1, got True."),
        ({"window": 0}, "Attention: window must be a whole number of at least 1, got 0."),
        (
            {"window": 4, "chunk": 4},
            "Attention: only one of window, chunk and source_hidden can be set.",
        ),
        (
            {"latent": Latent(kv_rank=8, rope_dim=4, nope_dim=12)},
            "Attention: latent attention expands one K and V per head, so kv_heads must equal heads, "
            "got kv_heads=2 for heads=8.",
        ),
        (
            {"kv_heads": 8, "latent": Latent(kv_rank=8, rope_dim=4, nope_dim=8)},
            "Attention: head_dim must be nope_dim + rope_dim = 12, got 16.",
        ),
    ],
)
def test_impossible_attention_is_refused_in_one_sentence(changes, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        attention(**changes)


def test_impossible_layers_and_models_are_refused_in_one_sentence():
    with pytest.raises(
        ValueError, match=r"^FeedForward: active_experts must be at most experts = 4, got 5\.$"
    ):
        FeedForward(hidden=64, intermediate=8, gated=True, experts=4, active_experts=5)
    with pytest.raises(ValueError, match="a layer must have at least one part"):
        LayerKind(attention=None, feed_forward=None, norm_parameters=1)
    mixer = short_convolution(64, kernel=3, bias=False)
    with pytest.raises(ValueError, match="attention or a recurrent mixer, not both"):
        LayerKind(attention=attention(), feed_forward=BLOCK, norm_parameters=1, recurrent=mixer)
    with pytest.raises(ValueError, match="all parts of a layer must have the same hidden width"):
        LayerKind(attention=attention(hidden=32), feed_forward=BLOCK, norm_parameters=1)
    with pytest.raises(ValueError, match="order must name each of its kinds"):
        shape_of(plain_kind(), order=(0, 1))
    with pytest.raises(ValueError, match="every layer must have the model's hidden width 32"):
        shape_of(plain_kind(), hidden=32)
    with pytest.raises(ValueError, match="at least one layer must have attention"):
        shape_of(LayerKind(attention=None, feed_forward=BLOCK, norm_parameters=1))
    with pytest.raises(ValueError, match="can have no extra_rows"):
        shape_of(plain_kind(), tied_embeddings=True, extra_rows=8)


@pytest.mark.parametrize("model_id", models())
def test_the_sum_over_kinds_is_the_sum_over_layers(model_id):
    shape = model(model_id)
    assert sum(count for _, count in shape.layer_groups) == shape.layers == len(shape.order)
    assert sum(shape.kinds[number].parameters for number in shape.order) == shape.layer_parameters
    assert len(set(shape.kinds)) == len(shape.kinds) <= 3
    ends = shape.embedding_parameters + shape.position_parameters + shape.final_norm_parameters
    assert shape.parameters == ends + shape.layer_parameters + shape.lm_head_parameters


def test_shapes_are_frozen_and_equal_shapes_hash_alike():
    shape = model("gpt2")
    with pytest.raises(dataclasses.FrozenInstanceError):
        shape.hidden = 1
    assert hash(shape) == hash(dataclasses.replace(shape))


def test_weights_of_llama_2_7b_in_fp16_are_13_48_gb():
    assert weight_bytes(model("llama-2-7b"), 2) == 13_476_831_232
    assert weight_bytes(model("llama-2-7b"), 0.5) == 6_738_415_616 // 2
    assert weight_bytes(model("llama-2-7b"), Fraction(18, 32)) == 6_738_415_616 * 18 // 32
    with pytest.raises(ValueError, match="bytes_per_element must be a whole number of at least 1, got 0"):
        weight_bytes(model("gpt2"), 0)


def test_a_workload_is_the_last_tokens_of_a_context():
    assert prefill(4, 1024, "fp16") == Workload(4, 1024, 1024, "fp16")
    assert decode(4, 1024, "fp16").q_len == 1
    with pytest.raises(ValueError, match=r"^Workload: q_len must be at most context = 8, got 9\.$"):
        Workload(1, 8, 9, "fp16")
    with pytest.raises(ValueError, match="batch must be a whole number of at least 1, got 0"):
        Workload(0, 8, 8, "fp16")


def filled(config, model_type, tokens=20):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    real = transformers.AutoConfig.for_model(model_type, **config)
    network = transformers.AutoModelForCausalLM.from_config(real).eval()
    with torch.no_grad():
        return network(torch.randint(0, 97, (2, tokens)), use_cache=True).past_key_values


@pytest.mark.parametrize(
    ("model_type", "config"),
    [
        ("jamba", JAMBA),
        ("bamba", BAMBA),
        ("lfm2", GROUPED | {"full_attn_idxs": [2, 4]}),
    ],
)
def test_a_real_hybrid_cache_holds_the_states_and_the_keys_of_its_shape(model_type, config):
    cache, shape = filled(config, model_type), from_config(config | {"model_type": model_type})
    batch, tokens = 2, 20
    for layer, kind in zip(cache.layers, (shape.kinds[number] for number in shape.order), strict=True):
        if kind.attention is not None:
            k, v = kind.attention.cached_elements_per_token()
            assert (layer.keys.numel(), layer.values.numel()) == (batch * tokens * k, batch * tokens * v)
            continue
        mixer = kind.recurrent
        states = layer.recurrent_states.values() if mixer.state_elements else ()
        assert sum(state.numel() for state in states if state is not None) == batch * mixer.state_elements
        (inputs,) = (conv for conv in layer.conv_states.values() if conv is not None)
        # transformers keeps the newest input too, which the next token does not need
        assert inputs[..., 1:].numel() == batch * mixer.conv_elements


def test_a_dynamic_cache_keeps_one_token_less_than_the_window_between_steps():
    config = GROUPED | {"sliding_window": 8, "head_dim": 12}
    cache, shape = filled(config, "mistral"), from_config(config | {"model_type": "mistral"})
    (kind,) = shape.kinds
    assert cache.layers[0].keys.shape[-2] == kind.attention.cells(20) - 1 == 7


@pytest.mark.parametrize(
    "mixer",
    [
        mamba(64, inner=128, state=16, rank=4, conv_kernel=4, conv_bias=True, bias=False),
        mamba2(64, heads=8, head_dim=16, groups=1, state=32, conv_kernel=4, conv_bias=True, bias=False),
        short_convolution(64, kernel=3, bias=False),
    ],
    ids=lambda mixer: mixer.name,
)
def test_a_recurrent_mixers_work_a_token_is_whole_and_does_not_depend_on_the_context(mixer):
    assert mixer.core_flops_per_token == 2 * (
        mixer.state_passes * mixer.state_elements + mixer.conv_channels * mixer.conv_kernel
    )
    assert mixer.parameters > sum(matrix.parameters for matrix in mixer.matrices)
