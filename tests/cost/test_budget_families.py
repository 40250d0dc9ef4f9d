"""Budgets of many families, read from their configs, against PyTorch's FLOP counter on tiny real models."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

from lab.cost.budget import Budget, budget
from lab.cost.configs import from_config
from lab.cost.shapes import decode, prefill
from tests.cost.tiny_models import SIZES, VOCAB

BATCH, LENGTH = 2, 24
WINDOWED = {**SIZES, "num_key_value_heads": 2, "num_hidden_layers": 6, "head_dim": 24, "sliding_window": 8}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
ENDS = {"vocab_size": VOCAB, "bos_token_id": 0, "eos_token_id": 0}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "Gemma 2: alternating windows": ("Gemma2", WINDOWED),
    "gpt-oss: windows, experts, sinks": (
        "GptOss",
        {**WINDOWED, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "Falcon: one KV head": (
        "Falcon",
        {**ENDS, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "multi_query": True},
    ),
    "StarCoder2: not gated": ("Starcoder2", {**SIZES, "num_key_value_heads": 2}),
    "Phi-3: fused projections": ("Phi3", {**SIZES, "num_key_value_heads": 2}),
    "Qwen2-MoE: shared expert with a gate": (
        "Qwen2Moe",
        {**SIZES, **EXPERTS, "num_key_value_heads": 2, "shared_expert_intermediate_size": 48},
    ),
    "Qwen3-MoE: wide heads and experts": (
        "Qwen3Moe",
        {**SIZES, **EXPERTS, "num_key_value_heads": 2, "head_dim": 24},
    ),
    "DeepSeek-V2-Lite: MLA without compressed queries": (
        "DeepseekV2",
        {
            **SIZES,
            "num_key_value_heads": 4,
            "n_routed_experts": 8,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "first_k_dense_replace": 1,
            "kv_lora_rank": 16,
            "q_lora_rank": None,
            "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 16,
            "v_head_dim": 12,
            "n_shared_experts": 2,
        },
    ),
}


def built(name: str, sizes: dict[str, Any], text: str = "") -> tuple[Any, torch.nn.Module]:
    config = getattr(transformers, f"{name}{text}Config")(**sizes)
    config._attn_implementation = config._experts_implementation = "eager"
    torch.manual_seed(0)
    return from_config(config.to_dict()), getattr(transformers, f"{name}ForCausalLM")(config).eval()


def counted(module: torch.nn.Module) -> tuple[int, int]:
    """FLOPs that the counter sees in a prefill and in the step after it."""
    ids = torch.randint(0, VOCAB, (BATCH, LENGTH + 1))
    with torch.no_grad():
        with FlopCounterMode(display=False) as first:
            output = module(ids[:, :LENGTH], use_cache=True)
        name = "cache" if hasattr(output, "cache") else "past_key_values"  # renamed within transformers 5
        with FlopCounterMode(display=False) as second:
            module(ids[:, LENGTH:], use_cache=True, **{name: output[name]})
    return first.get_total_flops(), second.get_total_flops()


def predicted(shape: Any) -> tuple[Budget, Budget]:
    """Eager models multiply every pair of a prefill; a step meets the tokens its layer still keeps."""
    step = budget(shape, decode(BATCH, LENGTH + 1, "fp32"), latent_form="re-expanded")
    return budget(shape, prefill(BATCH, LENGTH, "fp32", causal=False)), step


@pytest.mark.parametrize("family", FAMILIES)
def test_prefill_and_decode_equal_the_flop_counter(family: str) -> None:
    shape, module = built(*FAMILIES[family])
    assert shape.parameters == sum(parameter.numel() for parameter in module.parameters())
    assert tuple(part.matmul_flops for part in predicted(shape)) == counted(module)


def test_llama_4_in_transformers_runs_every_expert_on_every_token() -> None:
    """The counter sees the idle experts' products too, and chunked layers that still hold the chunk before."""
    sizes = {
        **SIZES,
        "intermediate_size": 32,
        "num_hidden_layers": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size_mlp": 96,
        "num_local_experts": 4,
        "num_experts_per_tok": 1,
        "attention_chunk_size": 8,
    }
    shape, module = built("Llama4", sizes, text="Text")
    everything = [
        replace(kind, feed_forward=replace(kind.feed_forward, active_experts=4)) for kind in shape.kinds
    ]
    run = replace(shape, kinds=tuple(everything))
    first, second = counted(module)
    assert predicted(run)[0].matmul_flops == first
    chunked = sum(shape.kinds[number].attention.chunk is not None for number in shape.order)
    hidden = 7 * BATCH * 4 * 4 * 16 * chunked  # 8 tokens are held, position 24 begins a chunk and sees 1
    assert predicted(run)[1].matmul_flops + hidden == second
