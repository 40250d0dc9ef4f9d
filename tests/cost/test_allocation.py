import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cost.allocation import ENGINES, allocate, contiguous, exact, llama_cpp, llama_cpp_cells, vllm
from lab.cost.cache import CacheLayers, layers_of
from lab.cost.layers import Attention

MIB = 2**20


def attention(kv_heads=4, head_dim=64, **options):
    return Attention(
        hidden=512, heads=2 * kv_heads, kv_heads=kv_heads, head_dim=head_dim, head_dim_v=head_dim, **options
    )


def gemma_like(window, k_type="f16"):
    """One full layer and five with a window, 4 KV heads of 64: the model the logs below were made with."""
    return [layers_of(attention(), 1, k_type), layers_of(attention(window=window), 5, k_type)]


# Logs of llama-server (llama-cpp-python 0.3.35) started with -c (context x sequences) -np sequences:
# window, context, sequences, n_ubatch, type, cells logged (full, window) in one stream, MiB logged.
LOGGED = [
    (128, 8192, 2, 512, "f16", 8192, 768, 23.50),
    (128, 8192, 2, 1024, "f16", 8192, 1280, 28.50),
    (1024, 8192, 4, 512, "f16", 8192, 1536, 62.00),
    (1024, 1000, 2, 512, "f16", 1024, 1024, 12.00),
    (128, 300, 1, 512, "f16", 512, 512, 3.00),
    (1024, 4096, 3, 512, "q8_0", 4096, 1536, 18.33),
]


@pytest.mark.parametrize("log", LOGGED)
def test_llama_cpp_cells_and_bytes_are_those_of_real_logs(log):
    window, context, sequences, n_ubatch, k_type, full_cells, window_cells, printed = log
    allocation = llama_cpp(gemma_like(window, k_type), sequences, context, n_ubatch=n_ubatch, unified=False)
    assert [part.cells for part in allocation.parts] == [sequences * full_cells, sequences * window_cells]
    assert round(allocation.reserved_bytes / MIB, 2) == printed


def test_a_unified_window_holds_every_sequence():
    assert llama_cpp_cells(65_535) == 65_536
    assert llama_cpp_cells(65_536, window=128, n_seq=4) == 128 * 4 + 512
    assert llama_cpp_cells(1000, window=128, n_seq=4) == 1024  # never more than the padded context


def test_llama_cpp_with_full_windows_is_full_attention():
    layers = gemma_like(128)
    ignored = llama_cpp(layers, 1, 8192, full_windows=True)
    assert ignored.reserved_bytes == 6 * 8192 * 1024
    assert llama_cpp(layers, 1, 8192).reserved_bytes < ignored.reserved_bytes


def test_llama_cpp_keeps_one_state_a_sequence_and_cross_attention_at_its_length():
    state = CacheLayers(kind="state", layers=3, span="state", sequence_bytes=1000)
    cross = layers_of(attention(source_hidden=512), 2, source_tokens=1500)
    parts = llama_cpp([state, cross], 4, 100).parts
    assert parts[0].bytes == 3 * 4 * 1000
    assert (parts[1].cells, parts[1].bytes) == (4 * 1500, 2 * 4 * 1500 * 1024)


def test_n_ctx_must_hold_the_sequences():
    with pytest.raises(ValueError, match="n_ctx must hold batch · context = 200 tokens, got 100"):
        llama_cpp(gemma_like(128), 2, 100, n_ctx=100)


def test_contiguous_reserves_the_longest_sequence_for_each():
    layers = [layers_of(attention(), 2)]
    allocation = contiguous(layers, 3, 100, max_context=2048)
    assert allocation.reserved_bytes == 3 * 2 * 2048 * 1024
    assert allocation.needed_bytes == 3 * 2 * 100 * 1024
    assert allocation.unused_bytes == 3 * 2 * 1948 * 1024
    with pytest.raises(ValueError, match="context must be at most max_context = 50, got 100"):
        contiguous(layers, 1, 100, max_context=50)


def test_vllm_wastes_less_than_one_block_a_sequence_without_windows():
    layers = [layers_of(attention(), 2)]
    allocation = vllm(layers, 3, 100)
    assert allocation.reserved_bytes == 3 * 2 * 112 * 1024
    assert allocation.parts[0].cells == 3 * 112


def test_an_unknown_engine_is_refused_with_the_list():
    with pytest.raises(
        ValueError, match=r"engine must be one of exact, contiguous, llama\.cpp, vllm, got 'x'"
    ):
        allocate("x", gemma_like(128), 1, 1)


@pytest.mark.parametrize("name", ["batch", "context"])
@pytest.mark.parametrize("value", [0, -1, 1.5, None, [1, 2]])
def test_sizes_that_are_no_single_whole_number_are_refused(name, value):
    sizes = {"batch": 1, "context": 64, name: value}
    with pytest.raises(ValueError, match=rf"{name} must be"):
        allocate("exact", gemma_like(128), **sizes)


@given(
    st.sampled_from(["exact", "llama.cpp", "vllm"]),
    st.integers(1, 8),
    st.integers(1, 5000),
    st.integers(1, 600),
    st.booleans(),
)
def test_reserved_covers_needed_in_every_engine(engine, batch, context, window, chunked):
    local = attention(chunk=window) if chunked else attention(window=window)
    layers = [layers_of(attention(), 2, "q8_0"), layers_of(local, 4, "q8_0")]
    allocation = allocate(engine, layers, batch, context)
    assert allocation.needed_bytes == ENGINES["exact"](layers, batch, context).reserved_bytes
    assert allocation.reserved_bytes >= allocation.needed_bytes > 0
    assert all(isinstance(part.bytes, int) for part in allocation.parts)


@given(st.integers(1, 8), st.integers(1, 5000))
def test_more_tokens_never_reserve_less(batch, context):
    layers = gemma_like(128)
    for engine in ("exact", "llama.cpp", "vllm"):
        now = allocate(engine, layers, batch, context).reserved_bytes
        assert allocate(engine, layers, batch, context + 1).reserved_bytes >= now
        assert allocate(engine, layers, batch + 1, context).reserved_bytes >= now


def test_exact_is_not_rounded_at_all():
    assert exact(gemma_like(128), 3, 1001).parts[0].cells == 3003
