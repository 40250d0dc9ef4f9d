"""`python -m lab cost`: sums that open into their terms, formulas that multiply out, refusals in one sentence."""

import json
import math
import re
from collections.abc import Iterator

import pytest
import typer
from typer.testing import CliRunner

from lab.cli.cost import cost
from lab.cost.catalog import models

APP = typer.Typer()
APP.command()(cost)
CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 101,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
}


def run(*arguments: str, stdin: str | None = None):
    return CliRunner().invoke(APP, list(arguments), input=stdin)


def as_json(*arguments: str, stdin: str | None = None) -> dict:
    result = run(*arguments, "--json", stdin=stdin)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def rows_of(found: dict) -> Iterator[dict]:
    pending = [row for section in found["sections"] for row in section["rows"]]
    while pending:
        row = pending.pop()
        yield row
        pending += row.get("terms", [])


def value(found: dict, section: str, name: str) -> float:
    (title,) = (part for part in found["sections"] if part["title"].startswith(section))
    return next(row["value"] for row in title["rows"] if row["name"] == name)


def test_gpt2_in_figures_known_from_elsewhere() -> None:
    found = as_json("gpt2", "--context", "1024", "--dense")
    assert value(found, "GPT-2", "parameters") == 124_439_808
    assert value(found, "GPT-2", "weights in fp16") == 248_879_616
    assert f"{value(found, 'Prefill', 'share of the attention core'):.0%}" == "13%"
    assert value(found, "Cache", "needed") == 36 * 2**20
    assert value(found, "Crossings", "attention core is half of all products") == 6_703
    assert f"{value(found, 'Crossings', 'cache = weights at 1,024 tokens'):.1f}" == "6.6"


@pytest.mark.parametrize("name", sorted(models()))
def test_every_total_of_every_model_is_the_sum_of_its_terms(name: str) -> None:
    found = as_json(name, "--batch", "2", "--training", "--pp", "2", "--offline")
    for row in rows_of(found):
        if "terms" in row:
            assert row["value"] == sum(term["value"] for term in row["terms"])
        assert row["value"] is None or isinstance(row["value"], str) or row["value"] >= 0


@pytest.mark.parametrize("name", ["gpt2", "llama-3-8b", "gemma-3-12b", "mixtral-8x7b", "deepseek-v3"])
def test_formulas_of_products_and_caches_multiply_out(name: str) -> None:
    found = as_json(name, "--batch", "3", "--context", "5000")
    checked = 0
    for row in rows_of(found):
        if re.match(r"\d+ layers · |2 · ", row.get("formula", "")):
            numbers = re.findall(r"\d[\d,]*", row["formula"])
            assert math.prod(int(number.replace(",", "")) for number in numbers) == row["value"]
            checked += 1
    assert checked >= 16


def test_people_see_totals_and_open_them_with_explain() -> None:
    short, opened = run("llama-3-8b"), run("llama-3-8b", "--explain")
    assert short.exit_code == opened.exit_code == 0
    assert "attention core" in short.stdout
    assert "QKᵀ" not in short.stdout
    assert "QKᵀ" in opened.stdout
    assert "2 · 4,096" in opened.stdout


def test_a_config_comes_from_a_file_or_from_standard_input(tmp_path) -> None:
    path = tmp_path / "tiny" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(CONFIG), encoding="utf-8")
    by_file, by_pipe = as_json(str(path)), as_json("-", stdin=json.dumps(CONFIG))
    assert by_file["model"] == "tiny"
    assert by_file["workload"]["context"] == 256  # the model's own limit
    rows = [[(row["name"], row["value"]) for row in rows_of(found)] for found in (by_file, by_pipe)]
    assert rows[0] == rows[1]


def test_options_reach_their_terms() -> None:
    plain = as_json("llama-3-8b", "--context", "8192")
    narrow = as_json("llama-3-8b", "--context", "8192", "--kv-dtype", "q8_0", "--v-dtype", "q4_0")
    assert value(narrow, "Cache", "needed") * 64 == value(plain, "Cache", "needed") * (17 + 9)
    padded = as_json("llama-3-8b", "--context", "100", "--engine", "llama.cpp")
    assert value(padded, "Cache", "reserved (llama.cpp)") > value(padded, "Cache", "needed")
    dense = as_json("llama-3-8b", "--context", "8192", "--dense")
    assert value(dense, "Prefill", "products") > value(plain, "Prefill", "products")
    last = as_json("llama-3-8b", "--context", "8192", "--logits", "last")
    assert value(last, "Prefill", "logits") * 8192 == value(plain, "Prefill", "logits")


def test_plans_say_what_a_rank_holds_and_sends() -> None:
    found = as_json("llama-3-8b", "--context", "8192", "--tp", "8", "--pp", "4", "--cp", "4")
    titles = [section["title"] for section in found["sections"]]
    assert [title.split(" over ")[0] for title in titles[-3:]] == [
        "tensor parallel",
        "pipeline parallel",
        "context parallel",
    ]
    assert value(found, "tensor parallel", "cache of that rank") == 2**30 // 8
    assert value(found, "context parallel", "cache of that rank") == 2**30 // 4


def test_a_context_beyond_the_models_limit_is_noted() -> None:
    assert any(
        "beyond the model's own limit of 1,024" in note
        for note in as_json("gpt2", "--context", "4096")["notes"]
    )
    assert "beyond the model's own limit" in " ".join(run("gpt2", "--context", "4096").stdout.split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nosuch"], "model must be a config.json"),
        (["gpt2", "--context", "0"], "context must be a whole number of at least 1, got 0"),
        (["gpt2", "--batch", "-1"], "batch must be a whole number of at least 1, got -1"),
        (["gpt2", "--dtype", "fp3"], "dtype must be one of"),
        (["gpt2", "--kv-dtype", "fp3"], "storage type must be one of"),
        (["gpt2", "--engine", "none"], "engine must be one of"),
        (["gpt2", "--logits", "some"], "logits must be one of"),
        (["gpt2", "--tp", "5"], "ranks must divide heads=12, got ranks=5"),
        (["missing.json"], "is no file"),
    ],
)
def test_mistakes_are_told_in_one_sentence_with_exit_code_2(arguments: list[str], sentence: str) -> None:
    result = run(*arguments, "--offline")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert sentence in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("text", ["", "{", "[]", '{"model_type": "llama"}', '{"model_type": "unheard-of"}'])
def test_configs_that_cannot_be_used_are_told_in_one_sentence(text: str) -> None:
    result = run("-", stdin=text)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1


def test_every_engine_answers_for_any_context() -> None:
    """Contiguous tensors reserve the model's own limit, or the context where that is longer."""
    token = 36_864  # bytes: 2 · 12 layers · 768 · 2
    for context, reserved in ((100, 1024), (1024, 1024), (4096, 4096)):
        found = as_json("gpt2", "--engine", "contiguous", "--context", str(context))
        assert value(found, "Cache", "reserved (contiguous)") == reserved * token
    for engine, cells in (("exact", 100), ("llama.cpp", 256), ("vllm", 112)):
        found = as_json("gpt2", "--engine", engine, "--context", "100")
        assert value(found, "Cache", f"reserved ({engine})") == cells * token


@pytest.mark.parametrize("tokens", ["4", "-4", "0"])
def test_another_sequence_is_refused_where_no_layer_reads_it(tokens: str) -> None:
    result = run("gpt2", "--source-tokens", tokens)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: source_tokens ")


@pytest.mark.parametrize("option", ["--context", "--batch"])
@pytest.mark.parametrize("name", ["gpt2", "mixtral-8x7b"])
def test_sizes_beyond_float64_are_refused_in_one_sentence(name: str, option: str) -> None:
    result = run(name, option, "1" + "0" * 400)
    assert result.exit_code == 2
    assert "is too large for a ratio" in result.stderr
    assert len(result.stderr) < 200
