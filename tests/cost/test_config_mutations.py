"""Configs of every family with fields changed at random: read as transformers reads them, or refused."""

import random

import pytest

from lab.cost.configs import ConfigError, from_config
from tests.cost.family_configs import CASES
from tests.cost.test_parameters import config_of, real_model, total

MUTATIONS = 150
VALUES = {
    "alibi": [True],
    "attention_bias": [True, False],
    "bias": [True, False],
    "conv_L_cache": [4],
    "conv_bias": [True, False],
    "decoder_sparse_step": [1, 2, 3],
    "enable_bias": [True, False],
    "expert_layer_period": [1, 3],
    "ffn_dim": [20],
    "first_k_dense_replace": [0, 1],
    "full_attention_interval": [2, 3],
    "head_dim": [8, 12, 16],
    "hidden_size": [48, 64],
    "intermediate_size": [40],
    "interleave_moe_layer_step": [1, 2, 3],
    "kv_lora_rank": [5],
    "linear_num_value_heads": [2, 6],
    "mamba_d_conv": [3],
    "mamba_dt_rank": ["auto", 3],
    "max_window_layers": [1, 3],
    "mlp_bias": [True],
    "mlp_only_layers": [[], [0]],
    "moe_intermediate_size": [7],
    "moe_layers": [[0], [1, 2]],
    "multi_query": [True, False],
    "n_embd": [64],
    "n_inner": [None, 50],
    "n_shared_experts": [1, 3],
    "new_decoder_architecture": [True, False],
    "num_attention_heads": [2, 8],
    "num_hidden_layers": [3, 5],
    "num_key_value_heads": [1, 2, 4],
    "num_ln_in_parallel_attn": [1, 2, None],
    "num_local_experts": [3],
    "parallel_attn": [True, False],
    "q_lora_rank": [None, 9],
    "qk_layernorm": [True],
    "shared_expert_intermediate_size": [9],
    "sliding_window": [4],
    "sliding_window_pattern": [2, 3],
    "tie_word_embeddings": [True, False],
    "use_bias": [True, False],
    "use_qk_norm": [True, False],
    "use_sliding_window": [True, False],
    "v_head_dim": [6, 20],
    "vocab_size": [50],
}
WORDS = {"full_attention": "full", "sliding_attention": "window", "chunked_attention": "chunks"}


def mutated(number):
    """A config with up to three fields of its own, or now and then of another family, changed."""
    chance = random.Random(number)
    model_type, config = chance.choice(CASES)
    config = dict(config)
    own = [name for name in VALUES if name in config]
    for name in chance.sample(own, min(len(own), 2)) + chance.sample(sorted(VALUES), 1):
        config[name] = chance.choice(VALUES[name])
    return model_type, config


def theirs(model_type, config):
    """Parameters and kinds of layer of the real model, or None where transformers cannot build it."""
    try:
        real = config_of(model_type, config)
        return total(real_model(real)), getattr(real, "layer_types", None)
    except Exception:
        return None


def test_a_changed_config_is_counted_as_transformers_builds_it_or_refused():
    pytest.importorskip("transformers")
    equal = 0
    for number in range(MUTATIONS):
        model_type, config = mutated(number)
        try:
            ours = from_config(config | {"model_type": model_type})
        except ConfigError:
            continue
        found = theirs(model_type, config)
        if found is None:
            continue
        parameters, kinds = found
        assert ours.parameters == parameters, (model_type, config)
        for order, kind in zip(ours.order, kinds or (), strict=bool(kinds)):
            attention = ours.kinds[order].attention
            span = attention.span.split()[0] if attention else None
            assert span == WORDS.get(kind), (model_type, config)
        equal += 1
    assert equal > MUTATIONS / 2
