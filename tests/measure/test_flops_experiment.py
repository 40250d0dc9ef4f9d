"""The count of real modules: equal to the formulas part by part, and wrong where one of them is."""

import pytest
from measured_shapes import job, points_of

from lab.cost import catalog
from lab.cost.budget import budget
from lab.cost.shapes import decode, prefill
from lab.measure.experiments import flops


@pytest.mark.parametrize("model", ["gpt2", "gemma-2-2b", "mixtral-8x7b", "deepseek-v2-lite"])
def test_every_part_of_a_real_model_is_the_formulas_to_the_last_flop(model: str) -> None:
    points = points_of("flops", "memory", job("flops", model=model, lengths=(40,), batches=(2,)))
    assert {point.variant for point in points} == {
        f"{phase}: {part}" for phase in ("prefill", "decode") for part in flops.PARTS
    }
    assert all(point.accepted for point in points)
    shape = catalog.model(model)
    totals = {
        phase: sum(p.measures["counted_flops"] for p in points if p.variant.startswith(phase))
        for phase in ("prefill", "decode")
    }
    assert totals["prefill"] == budget(shape, prefill(2, 40, "fp32", causal=False)).matmul_flops
    step = budget(shape, decode(2, 41, "fp32"), latent_form="re-expanded")
    assert totals["decode"] == step.matmul_flops


def test_a_formula_that_is_off_by_one_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    right = flops.by_part
    monkeypatch.setattr(flops, "by_part", lambda found: right(found) | {flops.HEAD: found.lm_head_flops + 1})
    points = points_of("flops", "memory", job("flops", lengths=(8,)))
    wrong = [point for point in points if not point.accepted]
    assert {point.variant for point in wrong} == {"prefill: LM head", "decode: LM head"}
    assert all("the counter saw" in point.reason for point in wrong)


def test_modules_that_compute_every_expert_are_refused() -> None:
    points = points_of("flops", "memory", job("flops", model="llama-4-scout", lengths=(8,)))
    assert {point.status for point in points} == {"refused"}
    assert "every expert" in points[0].reason
