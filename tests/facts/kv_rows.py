"""Each row of kv_cache_cases.json as a call of lab.cost: nothing here multiplies out a cache by itself.

`RECOMPUTE[row_id](row)` gives the figure in the row's own unit.
"""

import re
from fractions import Fraction

from lab.cost import allocation, cache, catalog, formulas, paging, storage
from lab.cost.layers import Attention, Latent
from lab.cost.recurrent import gated_delta_net

MIB, GIB = 2**20, 2**30

# What the row's notes state beside its inputs: (n_ctx asked, window, sequences, unified buffer).
LLAMA_CPP_WINDOWS = {
    "A51": (65535, 128, 4, True),
    "A52": (131072, 1024, 1, True),
    "A55": (8192, 1024, 4, True),
    "A58": (4096, 512, 4, False),
    "A59": (8192, 512, 1, True),
}

# Geometry of the vLLM rows that give only bytes a token: (layers, KV heads, head_dim), from the row's notes.
VLLM_GEOMETRY = {
    "A62": (32, 8, 128),
    "A63": (32, 8, 128),
    "A64b": (24, 2, 64),
    "A64c": (24, 2, 64),
    "A71": (28, 8, 128),
    "A83": (32, 32, 128),
}


def plain(kv_heads, head_dim, head_dim_v=None, *, heads=None, window=None):
    """Attention of a row; four query heads to a KV head unless stated, so that a mix-up shows."""
    heads = heads or 4 * kv_heads
    return Attention(
        hidden=heads * head_dim,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        head_dim_v=head_dim_v or head_dim,
        window=window,
    )


def latent(rank, rope, *, heads=128, nope=128, head_dim_v=128):
    """MLA attention with a latent row of rank + rope numbers."""
    return Attention(
        hidden=heads * nope,
        heads=heads,
        kv_heads=heads,
        head_dim=nope + rope,
        head_dim_v=head_dim_v,
        latent=Latent(kv_rank=rank, rope_dim=rope, nope_dim=nope),
    )


def kept(attention, layers, k_type="fp16", v_type=None, **options):
    """The layers of one kind, as lab.cost.cache keeps them."""
    return cache.layers_of(attention, layers, k_type, v_type, **options)


def storage_name(text):
    """The type a row names: "q8_KV: 1 B/elem + 8 B/row" is q8_KV."""
    return text.split(":")[0]


def llama_cpp_plain(row):
    given = row["inputs"]
    attention = plain(given["n_kv_heads"], given["head_dim"], given.get("head_dim_v"))
    layers = [kept(attention, given["n_layers"], given["k_type"], given["v_type"])]
    return Fraction(allocation.llama_cpp(layers, 1, given["tokens_allocated"]).reserved_bytes, MIB)


def llama_cpp_latent(row):
    given = row["inputs"]
    form = "latent and values" if given["transposed_v_copy"] else "latent"
    attention = latent(given["kv_lora_rank"], given["qk_rope_dim"])
    layers = [kept(attention, given["n_layers"], storage_name(given["k_type"]), "f16", form=form)]
    return Fraction(allocation.llama_cpp(layers, 1, given["tokens_allocated"]).reserved_bytes, MIB)


def llama_cpp_windows(row):
    """Allocation of a llama.cpp row with windows, from what was asked for on the command line."""
    given = row["inputs"]
    n_ctx, window, sequences, unified = LLAMA_CPP_WINDOWS[row["id"]]
    full = plain(given["n_kv_heads"], given["head_dim"])
    local = plain(given["n_kv_heads_swa"], given["head_dim_swa"], window=window)
    types = (given["k_type"], given["v_type"])
    layers = [kept(full, given["full_layers"], *types), kept(local, given["swa_layers"], *types)]
    return allocation.llama_cpp(layers, sequences, n_ctx // sequences, n_ctx=n_ctx, unified=unified)


def exact_windows(row):
    given = row["inputs"]
    full = plain(given["n_kv_heads"], given["head_dim"])
    local = plain(given["n_kv_heads"], given["head_dim"], window=given["swa_cells"])
    layers = [kept(full, given["full_layers"]), kept(local, given["swa_layers"])]
    return Fraction(allocation.exact(layers, 1, given["full_cells"]).reserved_bytes, GIB)


def vllm_layers(row):
    layers, kv_heads, head_dim = VLLM_GEOMETRY[row["id"]]
    return [kept(plain(kv_heads, head_dim), layers, "bf16")]


def vllm_pool(row):
    """Blocks from the memory vLLM printed as available; TensorRT-LLM keeps a fraction of it."""
    given = row["inputs"]
    available = Fraction(str(given.get("available_kv_gib", given.get("available_gib")))) * GIB
    available *= Fraction(str(given.get("fraction", 1)))
    block_tokens = given.get("block_size", given.get("tokens_per_block"))
    return paging.block_pool(vllm_layers(row), int(available), 16, block_tokens=block_tokens)


def vllm_swap_blocks(row):
    given = row["inputs"]
    tp = 8 if row["id"] == "A87" else 1
    layers = [kept(plain(given["n_kv_heads"], given["head_dim"]), given["n_layers"], tp=tp)]
    return paging.block_pool(layers, 4 * GIB, 16, block_tokens=given["block_size"]).blocks


def vllm_needed(row, layers, **options):
    pool = paging.block_pool(layers, GIB, row["inputs"]["tokens"], **options)
    return Fraction(pool.request_bytes, GIB)


def gpt_oss_needed(row):
    layers = cache.cache_layers(catalog.model("gpt-oss-120b"), "bf16")
    return vllm_needed(row, layers, max_batched_tokens=1024)


def mistral_small_4_needed(row):
    return vllm_needed(row, [kept(latent(256, 64), 36, "bf16")])


def qwen_hybrid_layers():
    """Qwen3.8-27B on one of two ranks: 16 attention layers in fp8, 48 with a recurrent state.

    The state's geometry is not in the row: 16 key and 48 value heads of 128, a convolution over 4 tokens.
    """
    mixer = gated_delta_net(5120, key_heads=16, value_heads=48, key_dim=128, value_dim=128, conv_kernel=4)
    states = cache.states_of(mixer, 48, "fp32", "bf16", tp=2)
    return [kept(plain(4, 256), 16, "fp8", tp=2), states]


def qwen_hybrid_pool(row):
    """The source states 131,072 tokens a request and prefix caching on, which takes two blocks a state."""
    available = int(Fraction(str(row["inputs"]["available_kv_gib_per_gpu"])) * GIB)
    return paging.block_pool(qwen_hybrid_layers(), available, 131072, state_mode="align")


def sglang_keys(row):
    given = row["inputs"]
    layers = kept(plain(4, given["head_dim"]), given["n_layers"], "bf16", tp=4)
    keys = cache.CacheLayers(kind="K", layers=layers.layers, k_token_bytes=layers.k_token_bytes)
    return Fraction(allocation.exact([keys], 1, given["tokens"]).reserved_bytes, GIB)


def vllm_tokens(row):
    given = row["inputs"]
    layers = [kept(plain(32, 128), 32)]
    block_bytes = paging.block_pool(layers, GIB, 16, block_tokens=given["block_size"]).block_bytes
    return paging.block_pool(
        layers, given["blocks"] * block_bytes, 64, block_tokens=given["block_size"]
    ).tokens


def deepseek_sparse(row):
    """DeepSeek-V3.2 in SGLang: fp8 latent with scales, rotary part in bf16; A80 adds the indexer's key."""
    given = row["inputs"]
    layers = kept(latent(512, 64), given["n_layers"], "fp8_block", rope_type="bf16")
    total = allocation.exact([layers], 1, given["tokens"]).reserved_bytes
    if row["id"] == "A80":
        numbers = given["n_layers"] * given["tokens"] * 128
        total += storage.stored_bytes(numbers, "fp8_block", row_elements=128)
    return Fraction(total, GIB)


def unequal_heads(row):
    keys, values = cache.token_rows(plain(8, 192, 128), "bf16")
    return Fraction(keys, values)


def glm_expanded(row):
    given = row["inputs"]
    attention = latent(
        512, 64, heads=given["n_heads"], nope=given["head_dim_k"] - 64, head_dim_v=given["head_dim_v"]
    )
    layers = [kept(attention, given["n_layers"], form="expanded")]
    return Fraction(allocation.exact(layers, 1, given["tokens"]).reserved_bytes, MIB)


def sharded_pool_ratio(row):
    """Blocks of a pool sized for one rank's heads over one sized for all heads."""
    given = row["inputs"]
    attention = plain(8, 128)
    whole_pool, rank_pool = (
        paging.block_pool([kept(attention, 64, "bf16", tp=tp)], 64 * GIB, 256, block_tokens=given["page"])
        for tp in (1, 4)
    )
    return Fraction(rank_pool.blocks, whole_pool.blocks)


def exact_plain(unit):
    def recompute(row):
        given = row["inputs"]
        kv_heads = given.get("n_kv_heads")
        layers = [kept(plain(kv_heads, given["head_dim"]), given["n_layers"])]
        return Fraction(allocation.exact(layers, 1, given["tokens"]).reserved_bytes, unit)

    return recompute


def elements(row):
    given = row["inputs"]
    return formulas.kv_bytes(1, given["n_layers"], given["n_heads"], given["tokens"], given["head_dim"], 1)


def native_context(row):
    """Rows "model @tokens" of an analytic table, from the catalogue's own shape."""
    model = {"DeepSeek-V3.1": "deepseek-v3", "Kimi-K2.5": "kimi-k2"}[row["model"].split(" @")[0]]
    tokens = int(re.search(r"@(\d+)", row["model"]).group(1))
    return Fraction(cache.cache_bytes(catalog.model(model), 1, tokens, "bf16").total_bytes, GIB)


def _by_ids(recompute, ids):
    return dict.fromkeys(ids.split(), recompute)


RECOMPUTE = {
    **_by_ids(
        llama_cpp_plain,
        "A02 A05 A07 A08 A09 A10 A14 A21 A22 A24 A25 A27 A28 A29 A30 A32 A33 A35 A36 A38 A60a A60c A60d A61c "
        "A61d A61e",
    ),
    **_by_ids(llama_cpp_latent, "A41 A44 A45 A47 A49"),
    **_by_ids(lambda row: Fraction(llama_cpp_windows(row).reserved_bytes, MIB), "A51 A52 A55 A58 A59"),
    **_by_ids(exact_windows, "A53"),
    **_by_ids(lambda row: vllm_pool(row).blocks, "A62 A63 A64b A64c A83"),
    **_by_ids(vllm_swap_blocks, "A65c A65d A65e A87"),
    **_by_ids(gpt_oss_needed, "A68"),
    **_by_ids(mistral_small_4_needed, "A69"),
    **_by_ids(lambda row: vllm_needed(row, vllm_layers(row)), "A71"),
    **_by_ids(lambda row: qwen_hybrid_pool(row).tokens, "A74"),
    **_by_ids(sglang_keys, "A76"),
    **_by_ids(vllm_tokens, "A78"),
    **_by_ids(deepseek_sparse, "A79 A80"),
    **_by_ids(unequal_heads, "A81"),
    **_by_ids(exact_plain(GIB), "A84 A88a2 A88b1 A88c1 A88c2 A88c3 A91 A93c A93d"),
    **_by_ids(glm_expanded, "A85"),
    **_by_ids(sharded_pool_ratio, "A86"),
    **_by_ids(elements, "A89"),
    **_by_ids(exact_plain(10**6), "A90"),
    **_by_ids(native_context, "A92a A92b"),
    **_by_ids(exact_plain(MIB), "A94"),
}
