"""What one token adds to the cache of one layer: a row of K and a row of V a head, or a latent row.

Kinds of layer, whole models and batches are the question of cache.py.
"""

from lab.cost.layers import Attention
from lab.cost.storage import StorageType, storage_type, whole

FORMS = ("native", "latent", "expanded", "latent and values")
"""Ways to keep MLA: the latent row (native), K and V of every head, or the latent row and a copy for V."""

Storage = str | StorageType


def rank_heads(kv_heads: int, tp: int) -> int:
    """Count the KV heads that one tensor-parallel rank keeps.

    Args:
        kv_heads: KV heads of the model.
        tp: tensor-parallel ranks.

    Returns:
        Heads a rank; with more ranks than heads each head is kept by several ranks.

    Raises:
        ValueError: neither number divides the other.

    Source: vLLM, ModelConfig.get_num_kv_heads: max(1, total_num_kv_heads // tensor_parallel_size).
    """
    heads, ranks = whole("kv_heads", kv_heads), whole("tp", tp)
    if heads % ranks and ranks % heads:
        raise ValueError(
            f"tp must divide kv_heads or be a multiple of it, got tp={tp} for kv_heads={kv_heads}"
        )
    return max(1, heads // ranks)


def token_rows(
    attention: Attention,
    k_type: Storage = "fp16",
    v_type: Storage | None = None,
    *,
    form: str = "native",
    rope_type: Storage | None = None,
    tp: int = 1,
) -> tuple[int, int]:
    """Weigh what one token adds to the cache of one layer, K and V apart.

    Args:
        attention: the layer's attention.
        k_type: storage of K, and of an MLA latent row.
        v_type: storage of V; None for that of K.
        form: one of FORMS; it matters for MLA only.
        rope_type: storage of the rotary part of a latent row where it is a row of its own (DeepSeek-V3.2).
        tp: tensor-parallel ranks; a latent row is kept whole by every rank.

    Returns:
        Bytes of K (or of the latent row) and of V on one rank; (0, 0) where another layer's cache is read.

    Raises:
        ValueError: an unknown form or type, a row that is not whole blocks, a tp that does not fit kv_heads.
    """
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, got {form!r}")
    keys = storage_type(k_type)
    values = keys if v_type is None else storage_type(v_type)
    if attention.shares_cache:
        return (0, 0)
    latent = attention.latent
    if latent is None or form == "expanded":
        heads = rank_heads(attention.kv_heads, tp)
        return (heads * keys.row(attention.head_dim), heads * values.row(attention.head_dim_v))
    if rope_type is None or not latent.rope_dim:
        row = keys.row(latent.kv_rank + latent.rope_dim)
    else:
        row = keys.row(latent.kv_rank) + storage_type(rope_type).row(latent.rope_dim)
    return (row, values.row(latent.kv_rank) if form == "latent and values" else 0)
