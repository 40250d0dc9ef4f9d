"""From a config to a shape: what is read, what is assumed, what is refused and how."""

import subprocess
import sys

import pytest

from lab.cost.catalog import model
from lab.cost.configs import ConfigError, from_config
from tests.cost.family_configs import GROUPED, JAMBA, LATENT, LLAMA4, PLAIN, VARIANTS, WINDOW

LLAMA = GROUPED | {"model_type": "llama"}
GEMMA3 = GROUPED | WINDOW | {"model_type": "gemma3_text"}
DEEPSEEK = LATENT | {"model_type": "deepseek_v3"}


def refusal(config):
    with pytest.raises(ConfigError) as refused:
        from_config(config)
    return str(refused.value)


def without(config, name):
    return {key: value for key, value in config.items() if key != name}


def test_importing_and_reading_configs_imports_neither_torch_nor_transformers():
    code = (
        "import sys; from lab.cost.config_source import find_model; find_model('deepseek-v3');"
        "import lab.cost.configs, lab.cost.catalog, lab.cost.shapes;"
        "print([name for name in ('torch', 'transformers', 'pandas', 'streamlit', 'huggingface_hub')"
        " if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_head_dim_is_the_configs_and_not_hidden_over_heads():
    shape = from_config(LLAMA | {"head_dim": 12})
    assert (shape.head_dim, shape.hidden // shape.heads) == (12, 8)
    assert from_config(LLAMA).head_dim == 8


def test_missing_kv_heads_are_as_many_as_heads_where_the_family_says_so():
    shape = from_config(without(LLAMA, "num_key_value_heads"))
    assert shape.kv_heads == shape.heads == 4
    assert "num_key_value_heads = null" in shape.assumed


def test_what_was_assumed_is_listed_and_what_was_stated_is_not():
    assert from_config(LLAMA).assumed == (
        "mlp_bias = false",
        "attention_bias = false",
        "tie_word_embeddings = false",
    )
    stated = {"mlp_bias": False, "attention_bias": False, "tie_word_embeddings": False}
    assert from_config(LLAMA | stated).assumed == ()


def test_the_published_gemma_3_config_omits_sizes_that_its_class_documents():
    config = {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "text_config": {
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "model_type": "gemma3_text",
            "num_hidden_layers": 34,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
            "sliding_window": 1024,
        },
        "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"},
    }
    shape = from_config(config)
    assert (shape.kinds, shape.order) == (model("gemma-3-4b").kinds, model("gemma-3-4b").order)
    assert shape.parameters == model("gemma-3-4b").parameters
    assert "vocab_size = 262208" in shape.assumed
    assert shape.notes == "Text part only."


def test_a_text_config_without_a_type_is_that_of_its_parent():
    text = without(LLAMA4, "model_type")
    shape = from_config({"model_type": "llama4", "text_config": text, "vision_config": {}})
    assert shape.family == "llama4_text"
    assert shape.kinds == from_config(text | {"model_type": "llama4_text"}).kinds


def test_the_outer_config_decides_whether_embeddings_are_tied():
    outer = {"model_type": "llava", "text_config": LLAMA, "tie_word_embeddings": True}
    assert from_config(outer).tied_embeddings
    both = outer | {"text_config": LLAMA | {"tie_word_embeddings": False}}
    assert refusal(both) == "text_config.tie_word_embeddings: False contradicts tie_word_embeddings = True."
    sizes = {"model_type": "llava", "text_config": LLAMA, "hidden_size": 64}
    assert refusal(sizes) == "text_config.hidden_size: 32 contradicts hidden_size = 64."


def test_a_familys_own_names_and_the_usual_names_are_both_read_and_must_agree():
    own = {"model_type": "gpt2", "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64, "vocab_size": 97}
    usual = without(own, "n_embd") | {"hidden_size": 32}
    assert from_config(own).kinds == from_config(usual).kinds
    assert refusal(own | {"hidden_size": 64}) == "n_embd: 32 contradicts hidden_size = 64."
    assert refusal(without(own, "n_layer")).startswith("n_layer: missing")


@pytest.mark.parametrize("name", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"])
@pytest.mark.parametrize("model_type", sorted(set(VARIANTS) - {"gemma3_text"}))
def test_a_size_that_makes_the_model_is_never_assumed(model_type, name):
    config = VARIANTS[model_type][0] | {"model_type": model_type}
    own = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}
    key = name if name in config else own[name]
    assert refusal(without(config, key)) == (
        f"{key}: missing, and no default of this family is safe to assume."
    )


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (LLAMA, "intermediate_size"),
        (GROUPED | {"model_type": "mistral"}, "num_key_value_heads"),
        (GEMMA3, "sliding_window"),
        (GROUPED | {"model_type": "ministral"}, "head_dim"),
        (DEEPSEEK, "kv_lora_rank"),
        (DEEPSEEK, "q_lora_rank"),
        (DEEPSEEK, "v_head_dim"),
        (DEEPSEEK, "n_routed_experts"),
        (DEEPSEEK, "n_shared_experts"),
        (DEEPSEEK, "first_k_dense_replace"),
        (VARIANTS["mixtral"][0] | {"model_type": "mixtral"}, "num_local_experts"),
        (VARIANTS["qwen3_moe"][0] | {"model_type": "qwen3_moe"}, "num_experts_per_tok"),
        (VARIANTS["qwen3_next"][0] | {"model_type": "qwen3_next"}, "linear_num_value_heads"),
        (VARIANTS["mllama_text_model"][0] | {"model_type": "mllama_text_model"}, "cross_attention_layers"),
        (JAMBA | {"model_type": "jamba"}, "mamba_d_state"),
    ],
)
def test_a_missing_field_is_named(config, name):
    assert refusal(without(config, name)).split(":")[0] in (name, "num_local_experts")


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (
            LLAMA | {"num_key_value_heads": 3},
            "num_key_value_heads: must divide num_attention_heads = 4, got 3.",
        ),
        (
            LLAMA | {"num_attention_heads": 6},
            "head_dim: missing, and 6 heads do not divide hidden_size = 32.",
        ),
        (
            LLAMA | {"hidden_size": 0},
            "hidden_size: must be a whole number from 1 to 1,000,000,000, got 0.",
        ),
        (
            LLAMA | {"hidden_size": "4096"},
            "hidden_size: must be a whole number from 1 to 1,000,000,000, got '4096'.",
        ),
        (
            LLAMA | {"num_hidden_layers": 10**6},
            "num_hidden_layers: must be a whole number from 1 to 10,000, got 1000000.",
        ),
        (LLAMA | {"tie_word_embeddings": "no"}, "tie_word_embeddings: must be true or false, got 'no'."),
        (GEMMA3 | {"sliding_window": None}, None),
        (
            GEMMA3 | {"layer_types": ["full_attention"] * 5},
            "layer_types: 5 entries contradict num_hidden_layers = 6.",
        ),
        (
            GEMMA3 | {"layer_types": ["linear_attention"] * 6},
            "layer_types: each must be one of full_attention, sliding_attention, got 'linear_attention'.",
        ),
        (
            GEMMA3 | {"layer_types": ["full_attention"] * 6, "sliding_window_pattern": 2},
            "layer_types: contradicts sliding_window_pattern.",
        ),
        (
            GROUPED
            | {"model_type": "qwen2", "use_sliding_window": False, "sliding_window": 8}
            | {"layer_types": ["sliding_attention"] * 6},
            "layer_types: sliding_attention contradicts use_sliding_window = false.",
        ),
        (
            DEEPSEEK | {"num_key_value_heads": 2},
            "num_key_value_heads: latent attention expands K and V for every head, 2 contradicts 4.",
        ),
        (DEEPSEEK | {"qk_head_dim": 64}, "qk_head_dim: 64 contradicts 20 of the other fields."),
        (
            DEEPSEEK | {"num_experts_per_tok": 9},
            "num_experts_per_tok: must be at most n_routed_experts = 8, got 9.",
        ),
        (
            PLAIN | {"model_type": "falcon", "num_key_value_heads": 2},
            "num_key_value_heads: 2 contradicts 1 of the other fields.",
        ),
        (
            PLAIN | {"model_type": "gpt_neox", "intermediate_size": 40, "head_dim": 16},
            "head_dim: this family uses 32 / 4 heads, 16 contradicts it.",
        ),
        (
            LLAMA4 | {"model_type": "llama4_text", "no_rope_layers": [1, 0]},
            "no_rope_layers: 2 entries contradict num_hidden_layers = 6.",
        ),
        (
            JAMBA | {"model_type": "jamba", "attn_layer_offset": 4},
            "attn_layer_offset: must be below attn_layer_period = 4, got 4.",
        ),
    ],
)
def test_an_impossible_or_contradictory_field_is_refused_in_one_sentence(config, sentence):
    found = refusal(config)
    assert found == sentence if sentence else found.startswith("sliding_window: must be a whole number")


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"model_type": "rwkv"}, "model_type"),
        ({"model_type": None}, "model_type"),
        ({"model_type": "deepseek_v32"}, "model_type"),
        ({"model_type": "gemma4_text"}, "model_type"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder"),
        ({"pruned_heads": {"0": [1, 2]}}, "pruned_heads"),
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "architectures"),
        ({"architectures": ["LlamaModel"]}, "architectures"),
        ({"num_local_experts": 8}, "num_local_experts"),
        ({"kv_lora_rank": 512}, "kv_lora_rank"),
        ({"sliding_window": 4096}, "sliding_window"),
        ({"layer_types": ["sliding_attention"] * 6}, "layer_types"),
        ({"block_configs": [{"attention": None}]}, "block_configs"),
        ({"index_topk": 2048}, "index_topk"),
        ({"num_kv_shared_layers": 2}, "num_kv_shared_layers"),
    ],
)
def test_what_is_not_modelled_is_refused_by_name_and_never_ignored(changes, name):
    assert refusal(LLAMA | changes).startswith(f"{name}: ")


def test_a_field_that_changes_nothing_here_is_no_obstacle():
    harmless = {
        "rope_theta": 1e6,
        "sliding_window": None,
        "layer_types": ["full_attention"] * 6,
        "num_local_experts": 0,
        "architectures": ["LlamaForCausalLM"],
        "quantization_config": {"quant_method": "awq", "bits": 4},
    }
    shape = from_config(LLAMA | harmless)
    assert shape.kinds == from_config(LLAMA).kinds
    assert "quantised ('awq')" in shape.notes


def test_layers_of_one_kind_are_built_once():
    shape = from_config(LLAMA | {"num_hidden_layers": 10_000})
    assert (len(shape.kinds), shape.layers) == (1, 10_000)
