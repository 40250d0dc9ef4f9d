"""What many families have in common: defaults of their config classes and the Llama layout they follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.cost.family import Family

UNTIED = {"tie_word_embeddings": False}
TIED = {"tie_word_embeddings": True}
PER_HEAD = {"num_key_value_heads": None}  # null: as many as heads
UNUSED_WINDOW = {"use_sliding_window": False}
NO_WINDOW = {"sliding_window": None}
SPARSE = {"decoder_sparse_step": 1, "mlp_only_layers": None}
ONE_BIAS: Mapping[str, Any] = {"qkv_bias": "attention_bias", "out_bias": "attention_bias"}


def llama_like(name: str, defaults: Mapping[str, Any], **changes: Any) -> Family:
    """Build a family that follows Llama but for the changes given.

    Args:
        name: stem of its classes in transformers.
        defaults: of its config class.
        changes: other fields of `Family`.

    Returns:
        The family.
    """
    return Family(source=f"{name}ForCausalLM, {name}Config", defaults=defaults, **changes)
