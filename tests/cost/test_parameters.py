"""Parameter counts against the real transformers classes, built on the meta device: exact, or the test fails."""

import json

import pytest

from lab.cost.catalog import DATA
from lab.cost.configs import from_config
from lab.cost.families import FAMILIES
from tests.cost.family_configs import CASES, IDS, VARIANTS

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

ROWS = json.loads((DATA / "models.json").read_text(encoding="utf-8"))
# kimi_k2 is no class of transformers: the catalogue's note says it is the DeepSeek-V3 architecture.
ORACLE = {"kimi_k2": "deepseek_v3"}


def config_of(model_type, config):
    return transformers.AutoConfig.for_model(ORACLE.get(model_type, model_type), **config)


def real_model(config):
    with torch.device("meta"):
        if config.model_type == "mllama_text_model":
            return transformers.MllamaForCausalLM(config)
        return transformers.AutoModelForCausalLM.from_config(config)


def total(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_every_family_has_a_case():
    assert set(VARIANTS) | set(ORACLE) == set(FAMILIES)


@pytest.mark.parametrize(("model_type", "config"), CASES, ids=IDS)
def test_a_small_model_of_each_family_has_exactly_its_parameters(model_type, config):
    model = real_model(config_of(model_type, config))
    shape = from_config(config | {"model_type": model_type})
    assert shape.parameters == total(model)


@pytest.mark.parametrize(("model_type", "config"), CASES, ids=IDS)
def test_each_layer_has_exactly_its_parameters(model_type, config):
    model = real_model(config_of(model_type, config))
    shape = from_config(config | {"model_type": model_type})
    blocks = next(
        module
        for module in model.modules()
        if isinstance(module, torch.nn.ModuleList) and len(module) == shape.layers
    )
    assert [total(block) for block in blocks] == [shape.kinds[kind].parameters for kind in shape.order]


@pytest.mark.parametrize("everything", [True, False], ids=["all fields", "changed fields"])
@pytest.mark.parametrize(("model_type", "config"), CASES, ids=IDS)
def test_the_config_json_that_transformers_writes_gives_the_same_shape(model_type, config, everything):
    written = config_of(model_type, config).to_json_string(use_diff=not everything)
    ours, theirs = from_config(config | {"model_type": model_type}), from_config(json.loads(written))
    assert (theirs.kinds, theirs.order, theirs.parameters) == (ours.kinds, ours.order, ours.parameters)


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_a_full_size_model_of_the_catalogue_has_exactly_its_parameters(row):
    config = dict(row["config"])
    model = real_model(config_of(config.pop("model_type"), config))
    assert from_config(row["config"]).parameters == total(model) == row["params_meta"]


@pytest.mark.parametrize("model_type", [name for name in FAMILIES if name not in ORACLE])
def test_every_default_is_that_of_the_config_class(model_type):
    family = FAMILIES[model_type]
    fields = transformers.CONFIG_MAPPING[model_type].__dataclass_fields__
    own_names = {**family.names, **family.renamed}
    ours = {own_names.get(name, name): value for name, value in family.defaults.items()}
    for name in PATTERNS:
        ours.pop(name, None)
    assert ours == {name: fields[name].default for name in ours}


# The config class reads these from its keyword arguments and keeps only the layer_types they give.
PATTERNS = ("sliding_window_pattern", "full_attention_interval")


@pytest.mark.parametrize(("family", "name"), [("gemma3_text", 6), ("cohere2", 4), ("qwen3_next", 4)])
def test_default_patterns_are_those_of_the_config_class(family, name):
    kinds = config_of(family, {"num_hidden_layers": 12}).layer_types
    assert [index for index, kind in enumerate(kinds) if kind == "full_attention"] == list(
        range(name - 1, 12, name)
    )


def test_active_parameters_of_a_mixture_leave_out_the_idle_experts():
    shape = from_config(dict(VARIANTS["mixtral"][0]) | {"model_type": "mixtral"})
    expert = 3 * 32 * 48
    assert shape.parameters - shape.active_parameters == shape.layers * (4 - 2) * expert


# Published in the notes of the facts. Cards differ in which tables they count: within one of the last digit.
@pytest.mark.parametrize(
    ("model_id", "billions", "digits"),
    [("deepseek-v3", 37, 0), ("qwen3-30b-a3b", 3.3, 1), ("qwen3-235b-a22b", 22, 0), ("kimi-k2", 32, 0)],
)
def test_active_parameters_round_to_the_published_figure(model_id, billions, digits):
    row = next(row for row in ROWS if row["id"] == model_id)
    active = from_config(row["config"]).active_parameters / 1e9
    assert abs(active - billions) < 1.0 * 10**-digits, active
