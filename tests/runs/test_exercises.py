"""The eight exercises: computed answers are lab.cost's, measured ones those of the newest run that has any."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.cost import catalog
from lab.cost.budget import budget
from lab.cost.evidence import exercises
from lab.cost.formulas import kv_bytes, score_bytes
from lab.cost.shapes import prefill
from lab.cost.traffic import operations, peak_extra_bytes
from lab.runs import EXPERIMENTS, Timing, default_spec, new_run, save
from lab.runs.exercises import answered
from tests.runs.test_records import cell

GIB = 2**30
CALL = {
    "batch": 1,
    "heads": 32,
    "kv_heads": 32,
    "head_dim": 128,
    "dtype": "fp16",
    "causal": True,
    "device": "cuda",
}


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_HOME", str(tmp_path))


def values(number: int) -> list[str]:
    return [value for _, value, _ in answered()[number - 1].steps]


def test_1_the_cache_and_the_batch_that_outweighs_the_parameters() -> None:
    cache = kv_bytes(1, 32, 32, 8192, 128, 2)
    batch = next(count for count in range(1, 100) if count * cache > 2 * 7e9)
    assert values(1)[:2] == [f"{cache / GIB:.3g} GiB", f"{batch} sequences"] == ["4 GiB", "4 sequences"]


def test_2_the_memory_table_is_the_predictors() -> None:
    sizes = [
        peak_extra_bytes(name, q_len=T, kv_len=T, **CALL) / GIB
        for name in ("naive", "math", "efficient")
        for T in (2048, 8192, 16384)
    ]
    moved = sum(o.read_bytes + o.written_bytes for o in operations("naive", q_len=8192, kv_len=8192, **CALL))
    tensors = moved / score_bytes(1, 32, 8192, 8192, 2)
    assert values(2) == [f"{size:.3g} GiB" for size in sizes] + [f"{tensors:.3g} tensors"]
    assert answered()[1].command == (
        "python -m lab memory --heads 32 --head-dim 128 --lengths 2048,8192,16384"
    )


def test_3_and_4_the_share_of_the_mask_and_of_idle_multiprocessors() -> None:
    steps = operations(
        "naive", **{**CALL, "heads": 12, "kv_heads": 12, "head_dim": 64}, q_len=8192, kv_len=8192
    )
    moved = {step.name: step.read_bytes + step.written_bytes for step in steps}
    mask = sum(size for name, size in moved.items() if "mask" in name)
    assert values(3) == [f"{100 * mask / sum(moved.values()):.3g} %"]
    assert values(4) == [f"{100 * (1 - 12 / 34):.3g} %"]


def test_6_to_8_lengths_and_tensors_of_gpt2() -> None:
    gpt2 = catalog.model("gpt2")
    assert values(6) == [f"{round(gpt2.vocab / (2 * gpt2.heads)):,} tokens"] == ["2,094 tokens"]
    assert values(7) == [f"{score_bytes(1, 12, 8192, 8192, size) / GIB:.3g} GiB" for size in (2, 4)]
    found = [int(value.replace(",", "").split()[0]) for value in values(8)]
    assert found == [6703, 13404, 4608, 9215]
    for tokens, causal, head in zip(
        found, (False, True, False, True), (True, True, False, False), strict=True
    ):
        shares = []
        for length in (tokens - 1, tokens):
            work = budget(gpt2, replace(prefill(1, length, "fp16"), causal=causal), logits="all")
            total = work.matmul_flops - (0 if head else work.lm_head_flops)
            shares.append(2 * work.core_flops - total)
        assert shares[0] < 0 <= shares[1]


def test_every_answer_is_filled_in_and_every_experiment_exists() -> None:
    for exercise, found in zip(exercises(), answered(), strict=True):
        assert "{" not in found.answer
        assert exercise.experiment is None or exercise.experiment in EXPERIMENTS
        assert (found.command is None) == (exercise.experiment is None)
        assert found.measured == ()
        assert found.steps or found.command


def kinds(implementation: str) -> dict[str, object]:
    return {"experiment": "mask", "implementation": implementation, "timing": Timing(1e-3)}


def test_two_exercises_share_an_experiment_and_each_reads_its_own_points() -> None:
    run = replace(
        new_run(default_spec("mask")),
        points=(
            cell(**kinds("naive"), variant="mask on every row"),
            cell(**kinds("naive"), variant="first row of each block unmasked"),
            cell(**kinds("sdpa"), variant="is_causal"),
            cell(**kinds("sdpa"), variant="boolean mask"),
        ),
    )
    found = answered([run])
    assert [len(each.measured) for each in found] == [0, 0, 1, 0, 1, 0, 0, 0]
    assert found[2].measured[0].startswith("Naive at")
    assert "keeps its kernel" in found[4].measured[0]
    assert run.run_id in str(found[2].measured_on)


def test_the_command_prints_all_or_one_and_says_what_has_not_been_measured() -> None:
    result = CliRunner().invoke(app, ["exercises"])
    assert result.exit_code == 0
    for each in answered():
        assert each.answer in result.output
    assert "Nothing kept on this machine has measured it yet." in result.output
    save(replace(new_run(default_spec("mask")), points=(
        cell(**kinds("sdpa"), variant="is_causal"), cell(**kinds("sdpa"), variant="boolean mask"),
    )))  # fmt: skip
    only = json.loads(CliRunner().invoke(app, ["exercises", "5", "--json"]).output)
    assert [each["number"] for each in only] == [5]
    assert only[0]["measured"]
    refused = CliRunner().invoke(app, ["exercises", "9"])
    assert refused.exit_code == 2
    assert "number must be 1 to 8, got 9" in refused.output
