"""Malformed and hostile configs: texts that are no config, and configs that are no model."""

import json
import math

from tests.cost.family_configs import GROUPED, JAMBA, LATENT, LLAMA4, VARIANTS

LLAMA = GROUPED | {"model_type": "llama", "head_dim": 8}
TEXT = json.dumps(LLAMA)


def deep(levels, leaf=None):
    for _ in range(levels):
        leaf = [leaf]
    return leaf


TEXTS = {
    **{f"cut off after {end}": TEXT[:end] for end in range(0, len(TEXT), 6)},
    "blank": " \n\t ",
    "null": "null",
    "a list": "[]",
    "a list of configs": f"[{TEXT}]",
    "a number": "3",
    "a string": '"llama"',
    "true": "true",
    "an empty object": "{}",
    "NaN": TEXT.replace("32", "NaN"),
    "infinity": TEXT.replace("32", "Infinity"),
    "minus infinity": TEXT.replace("32", "-Infinity"),
    "overflowing float": TEXT.replace("32", "1e999"),
    "a field twice": TEXT[:-1] + ', "hidden_size": 64}',
    "two objects": TEXT + TEXT,
    "a comment": "// llama\n" + TEXT,
    "trailing comma": TEXT[:-1] + ",}",
    "single quotes": repr(LLAMA),
    "python literals": TEXT[:-1] + ', "x": None}',
    "YAML": "model_type: llama\nhidden_size: 32\n",
    "HTML": "<!doctype html><title>404</title>",
    "a git-lfs pointer": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    "control characters": '{"model_type": "lla\nma"}',
    "a NUL inside": TEXT.replace("llama", "lla\0ma"),
    "two byte order marks": "\ufeff\ufeff" + TEXT,
    "not UTF-8": b"\xff\xfe" + TEXT.encode("utf-16-le"),
    "latin-1": TEXT.replace("llama", "llamà").encode("latin-1"),
    "binary": bytes(range(256)) * 16,
    "a million brackets": "[" * 1_000_000,
    "a million closed brackets": "[" * 1_000_000 + "]" * 1_000_000,
    "200,000 objects deep": '{"text_config":' * 200_000 + "1" + "}" * 200_000,
    "50 MB of blanks": " " * 50_000_000,
    "50 MB of text": '{"model_type": "' + "x" * 50_000_000 + '"}',
    "3 MB model type": '{"model_type": "' + "x" * 3_000_000 + '"}',
    "5,000 digits": TEXT.replace("32", "9" * 5000),
    "4,000 digits": TEXT.replace("32", "9" * 4000),
    "300,000 fields, the last twice": "{" + ",".join(f'"f{i}": 1' for i in range(200_000)) + ',"f199999": 2}',
    "a lone surrogate": TEXT.replace("llama", "\\ud800"),
    "a lone surrogate as field": '{"\\ud800": 1, "\\ud800": 2}',
}

WRONG = {
    "0": 0,
    "-1": -1,
    "1.5": 1.5,
    "32.0": 32.0,
    "text": "32",
    "a list": [32],
    "an object": {"value": 32},
    "true": True,
    "NaN": math.nan,
    "infinity": math.inf,
    "10^30": 10**30,
    "10^5000": 10**5000,
    "deep": deep(50_000),
}
SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
SIZES += ("head_dim", "intermediate_size", "vocab_size", "max_position_embeddings")
FLAGS = ("tie_word_embeddings", "attention_bias", "mlp_bias")
NO_FLAG = {"text": "true", "1": 1, "null": None, "a list": [True], "NaN": math.nan}


def family(model_type, **changes):
    return VARIANTS[model_type][0] | {"model_type": model_type} | changes


DICTS = {
    **{f"{name} = {what}": LLAMA | {name: value} for name in SIZES for what, value in WRONG.items()},
    **{f"{name} = {what}": LLAMA | {name: value} for name in FLAGS for what, value in NO_FLAG.items()},
    **{
        f"{name} missing": {key: value for key, value in LLAMA.items() if key != name}
        for name in ("model_type", *SIZES[:3], "intermediate_size", "vocab_size")
    },
    **{
        f"model_type = {what}": LLAMA | {"model_type": value}
        for what, value in {
            "unknown": "zeta",
            "a list": ["llama"],
            "an object": {},
            "3": 3,
            "deep": deep(9**5),
        }.items()
    },
    **{
        f"text_config = {what}": LLAMA | {"text_config": value}
        for what, value in {"a list": [], "text": "x", "empty": {}, "deep": deep(9**5), "3": 3}.items()
    },
    **{
        f"architectures = {what}": LLAMA | {"architectures": value}
        for what, value in {
            "text": "LlamaForCausalLM",
            "numbers": [1],
            "an encoder": ["BertModel"],
            "deep": [deep(9**5)],
        }.items()
    },
    "two deep spellings": family("gpt2", hidden_size=deep(9**5)) | {"n_embd": deep(9**5)},
    "a million layer types": family("gemma2", layer_types=["full_attention"] * 10**6),
    "layer types of another family": family("gemma2", layer_types=["conv"] * 6),
    "layer types of no length": family("gemma2", layer_types=[]),
    "layer types as text": family("gemma2", layer_types="full_attention"),
    "layer types with a list": family("gemma2", layer_types=[["full_attention"]] * 6),
    "a window of 0": family("mistral", sliding_window=0),
    "a window of text": family("mistral", sliding_window="8"),
    "no experts": family("mixtral", num_local_experts=0),
    "one expert": family("mixtral", num_local_experts=1),
    "more active experts than there are": family("mixtral", num_experts_per_tok=5),
    "no active expert": family("mixtral", num_experts_per_tok=0),
    "a dense layer that is none": family("qwen3_moe", mlp_only_layers=[6]),
    "a negative dense layer": family("qwen3_moe", mlp_only_layers=[-1]),
    "dense layers as text": family("qwen3_moe", mlp_only_layers="1"),
    "a million dense layers": family("qwen3_moe", mlp_only_layers=[1] * 10**6),
    "no sparse step": family("qwen3_moe", decoder_sparse_step=0),
    "no latent rank": LATENT | {"model_type": "deepseek_v3", "kv_lora_rank": 0},
    "grouped latent heads": LATENT | {"model_type": "deepseek_v3", "num_key_value_heads": 2},
    "a mixture in every other layer": LATENT | {"model_type": "deepseek_v3", "moe_layer_freq": 2},
    "no chunk": LLAMA4 | {"model_type": "llama4_text", "attention_chunk_size": 0},
    "rotary flags of 2": LLAMA4 | {"model_type": "llama4_text", "no_rope_layers": [2] * 6},
    "an offset beyond its period": JAMBA | {"model_type": "jamba", "attn_layer_offset": 9},
    "no period": JAMBA | {"model_type": "jamba", "attn_layer_period": 0},
    "a rank of text": JAMBA | {"model_type": "jamba", "mamba_dt_rank": "some"},
    "no attention at all": family("bamba", attn_layer_indices=[]),
    "heads that do not fill the state": family("bamba", mamba_d_head=7),
    "state heads that do not divide": family("qwen3_next", linear_num_value_heads=3),
    "cross-attention everywhere": family("mllama_text_model", cross_attention_layers=list(range(6))),
    "cross-attention nowhere": family("mllama_text_model", cross_attention_layers=None),
    "a tied table of another size": family("mllama_text_model", tie_word_embeddings=True),
    "a narrow OPT embedding": family("opt", word_embed_proj_dim=16),
    "a list as config": [LLAMA],
    "text as config": "llama",
    "no config": None,
}
