import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cost import catalog
from lab.cost.cache import CacheLayers, cache_bytes, cache_layers, layers_of, rank_heads, token_rows
from lab.cost.configs import from_config
from lab.cost.exact import InexactResultWarning, is_exact
from lab.cost.formulas import kv_bytes
from lab.cost.layers import Attention, FeedForward, Latent
from lab.cost.pipeline_parallel import pipeline_parallel
from lab.cost.shapes import LayerKind, ModelShape, Workload

GIB = 2**30
MLA_MODELS = [model_id for model_id, model in catalog.models().items() if model.attention_kind == "MLA"]


def attention(heads=8, kv_heads=2, head_dim=64, head_dim_v=None, **options):
    return Attention(
        hidden=512,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        head_dim_v=head_dim_v or head_dim,
        **options,
    )


def model_of(*attentions, cross=None):
    """A model with one layer for each attention given."""
    feed_forward = FeedForward(hidden=512, intermediate=64, gated=True)
    layers = [
        LayerKind(attention=one, feed_forward=feed_forward, norm_parameters=0, cross_attention=cross)
        for one in attentions
    ]
    kinds = tuple(dict.fromkeys(layers))
    return ModelShape(
        id="test",
        name="test",
        family="test",
        hidden=512,
        vocab=64,
        kinds=kinds,
        order=tuple(kinds.index(layer) for layer in layers),
        tied_embeddings=True,
        final_norm_parameters=0,
    )


def latent(heads=8, rank=64, rope=32, nope=32, head_dim_v=48):
    return attention(
        heads, heads, nope + rope, head_dim_v, latent=Latent(kv_rank=rank, rope_dim=rope, nope_dim=nope)
    )


def test_llama_2_7b_is_4_gib_at_8192_and_half_a_mebibyte_a_token():
    cache = cache_bytes(catalog.model("llama-2-7b"), 1, 8192)
    assert cache.total_bytes == 4 * GIB
    assert cache.bytes_per_new_token == 512 * 1024


def test_gpt2_is_36_mib_at_1024_as_the_chapter_says():
    assert cache_bytes(catalog.model("gpt2"), 1, 1024).total_bytes == 36 * 2**20


def test_a_plain_model_agrees_with_the_chapters_kv_bytes():
    model = catalog.model("llama-3-8b")
    assert cache_bytes(model, 3, 777).total_bytes == kv_bytes(3, 32, 8, 777, 128, 2)


def test_kinds_are_listed_apart_and_equal_kinds_together():
    parts = cache_bytes(catalog.model("gemma-3-27b"), 1, 131_072).parts
    local, full = sorted(parts, key=lambda part: part.layers.span == "full")
    assert (local.layers.layers, local.tokens) == (52, 1024)
    assert (full.layers.layers, full.tokens) == (10, 131_072)
    assert local.layers.kind == "GQA window 1024"


def test_chunks_hold_at_most_one_chunk():
    spans = {kind.span: kind for kind in cache_layers(catalog.model("llama-4-scout"))}
    assert spans["chunks"].tokens(100_000) == 8192
    assert spans["full"].tokens(100_000) == 100_000


def test_layers_that_read_another_layers_cache_keep_nothing():
    model = model_of(attention(), attention(shares_cache=True))
    assert cache_bytes(model, 1, 100) == cache_bytes(model_of(attention()), 1, 100)
    assert token_rows(attention(shares_cache=True)) == (0, 0)


def test_cross_attention_keeps_the_other_sequence():
    model = model_of(attention(), attention(), cross=attention(source_hidden=512))
    cache = cache_bytes(model, 2, 10, source_tokens=1500)
    cross = next(part for part in cache.parts if part.layers.span == "cross")
    assert (cross.layers.layers, cross.tokens) == (2, 1500)
    assert cross.bytes == 2 * 2 * 1500 * 2 * 128 * 2
    assert cache.bytes_per_new_token == 2 * 512
    with pytest.raises(ValueError, match="source_tokens must be given"):
        cache_bytes(model, 2, 10)


def test_a_recurrent_state_is_counted_once_a_sequence_and_apart():
    state = CacheLayers(kind="state", layers=3, span="state", sequence_bytes=1000)
    assert state.bytes(4, 10) == state.bytes(4, 10_000) == 12_000


@pytest.mark.parametrize("model_id", MLA_MODELS)
def test_mla_latent_is_smaller_than_expanded(model_id):
    model = catalog.model(model_id)
    small = cache_bytes(model, 1, 4096, form="latent").total_bytes
    both = cache_bytes(model, 1, 4096, form="latent and values").total_bytes
    large = cache_bytes(model, 1, 4096, form="expanded").total_bytes
    assert small < both < large
    assert small == cache_bytes(model, 1, 4096).total_bytes


def test_there_are_mla_models_in_the_catalogue():
    assert len(MLA_MODELS) >= 3


def test_k_and_v_have_their_own_types_and_widths():
    one = attention(head_dim=192, head_dim_v=128)
    assert token_rows(one, "q8_0", "q4_0") == (2 * 204, 2 * 72)
    assert token_rows(one, "bf16") == (2 * 384, 2 * 256)


def test_the_rotary_part_of_a_latent_row_can_be_a_row_of_its_own():
    one = latent(rank=512, rope=64, nope=128)
    assert token_rows(one, "fp8_block", rope_type="bf16") == (656, 0)
    with pytest.raises(ValueError, match="128-element block"):
        token_rows(one, "fp8_block")


def test_a_form_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="form must be one of native, latent, expanded, latent and values"):
        token_rows(latent(), form="compressed")


@pytest.mark.parametrize(
    ("kv_heads", "tp", "heads"), [(8, 1, 8), (8, 4, 2), (8, 8, 1), (8, 16, 1), (1, 4, 1)]
)
def test_heads_of_a_rank(kv_heads, tp, heads):
    assert rank_heads(kv_heads, tp) == heads


def test_heads_that_cannot_be_shared_out_are_refused():
    with pytest.raises(ValueError, match="tp must divide kv_heads or be a multiple of it, got tp=3 for"):
        rank_heads(8, 3)


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_ranks_sum_to_the_whole_while_they_divide_the_heads(tp):
    model = catalog.model("llama-3-8b")
    rank = cache_bytes(model, 3, 1000, "q8_0", tp=tp).total_bytes
    assert tp * rank == cache_bytes(model, 3, 1000, "q8_0").total_bytes
    # Past the heads every rank keeps one whole head, and the sum is more than the cache.
    assert (
        cache_bytes(model, 3, 1000, "q8_0", tp=16).total_bytes
        == cache_bytes(model, 3, 1000, "q8_0", tp=8).total_bytes
    )


def test_every_rank_keeps_the_whole_latent_row():
    assert token_rows(latent(), tp=4) == token_rows(latent())


@pytest.mark.parametrize("name", ["batch", "context"])
@pytest.mark.parametrize("value", [0, -1, 2.5, None, "8"])
def test_sizes_that_are_no_whole_number_are_refused(name, value):
    sizes = {"batch": 1, "context": 1, name: value}
    with pytest.raises(ValueError, match=f"{name} must be a whole number"):
        cache_bytes(catalog.model("gpt2"), **sizes)


def test_arrays_broadcast_and_agree_with_scalars():
    model = catalog.model("gemma-2-9b")
    batches, contexts = np.array([[1], [7]]), np.array([1, 4096, 4097, 100_000])
    total = cache_bytes(model, batches, contexts).total_bytes
    assert total.shape == (2, 4)
    assert total.dtype == np.int64
    for row, batch in enumerate((1, 7)):
        for column, context in enumerate(contexts.tolist()):
            assert total[row, column] == cache_bytes(model, batch, context).total_bytes


def test_an_array_beyond_int64_is_flagged_and_a_scalar_stays_exact():
    model = catalog.model("llama-2-7b")
    with pytest.warns(InexactResultWarning):
        assert not is_exact(cache_bytes(model, np.array([2**50]), 10**6).total_bytes)
    assert cache_bytes(model, 2**50, 10**6).total_bytes == 2**50 * 10**6 * 512 * 1024


@given(st.integers(1, 64), st.integers(1, 10_000), st.integers(1, 10_000))
def test_a_window_at_least_the_context_is_full_attention(batch, context, window):
    local = cache_bytes(model_of(attention(window=window)), batch, context).total_bytes
    full = cache_bytes(model_of(attention()), batch, context).total_bytes
    assert local == full if window >= context else local == full * window // context


@given(st.integers(1, 16), st.integers(1, 16), st.integers(1, 5000))
def test_grouped_queries_with_equal_heads_are_multi_head(heads, batch, context):
    grouped = cache_bytes(model_of(attention(heads, heads)), batch, context).total_bytes
    assert grouped == kv_bytes(batch, 1, heads, context, 64, 2)
    assert grouped == heads * cache_bytes(model_of(attention(heads, 1)), batch, context).total_bytes


@given(
    st.sampled_from(["gpt2", "gemma-3-4b", "deepseek-v3", "llama-4-scout", "gpt-oss-20b"]),
    st.sampled_from(["fp32", "bf16", "fp8", "int8", "int4", "q8_0", "q4_0"]),
    st.integers(1, 100),
    st.integers(1, 10**6),
)
def test_bytes_are_whole_positive_and_double_with_the_batch(model_id, storage, batch, context):
    model = catalog.model(model_id)
    total = cache_bytes(model, batch, context, storage).total_bytes
    assert isinstance(total, int)
    assert 0 < 2 * total == cache_bytes(model, 2 * batch, context, storage).total_bytes
    assert total <= cache_bytes(model, batch, 2 * context, storage).total_bytes <= 2 * total


def test_layers_of_names_what_it_keeps():
    assert layers_of(attention(kv_heads=1), 3).kind == "MQA full"
    assert layers_of(latent(), 3).kind == "MLA full"
    assert layers_of(attention(chunk=16), 3).kind == "GQA chunks of 16"


def test_a_quantised_cache_leaves_the_convolutions_inputs_alone():
    """The sizes of Qwen3-Next: 36 states of 32 · 128 · 128 in fp32, 3 inputs of 8,192 channels in 16 bits."""
    shape = from_config(
        {
            "model_type": "qwen3_5_text",
            "hidden_size": 2048,
            "intermediate_size": 5120,
            "num_hidden_layers": 48,
            "num_attention_heads": 16,
            "num_key_value_heads": 2,
            "vocab_size": 151_936,
            "linear_conv_kernel_dim": 4,
            "linear_num_key_heads": 16,
            "linear_key_head_dim": 128,
            "linear_num_value_heads": 32,
            "linear_value_head_dim": 128,
        }
    )
    for k_type in ("fp16", "bf16", "fp8", "q8_0", "int4", "q4_0"):
        assert cache_bytes(shape, 1, 10, k_type).state_bytes == 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)
        stages = pipeline_parallel(shape, Workload(1, 10, 1, "fp16"), 2, k_type=k_type).ranks
        assert sum(stage.kv_bytes for stage in stages) == cache_bytes(shape, 1, 10, k_type).total_bytes
    assert cache_bytes(shape, 1, 10, "fp32").state_bytes == 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 4)
    assert cache_bytes(shape, 1, 10, conv_type="fp32", state_type="fp16").state_bytes == 36 * (
        32 * 128 * 128 * 2 + 3 * 8192 * 4
    )
