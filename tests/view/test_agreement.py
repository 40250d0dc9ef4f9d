"""Which points are held against the predictor: plain calls of attention, and no others."""

from dataclasses import replace

import pytest

from lab.cost.prediction import predict_attention
from lab.runs import Run, Timing, default_spec, new_run, reference_runs
from lab.view import agreement
from tests.cost.calibrations import cpu
from tests.runs.test_records import cell


def run_of(experiment: str, variant: str | None) -> Run:
    point = cell(
        experiment=experiment, implementation="naive", variant=variant, dtype="fp32", timing=Timing(1e-3)
    )
    calibrations = {"fp32": cpu("fp32").to_dict()}
    return replace(
        new_run(default_spec(experiment)), points=(point,), ceilings={"calibrations": calibrations},
        environment={"device_kind": "cpu", "device_name": "test processor", "threads": cpu("fp32").threads},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("experiment", "variant", "plain"),
    [
        ("scaling", None, True),
        ("accuracy", "sharp scores", True),
        ("mask", "is_causal", True),
        ("mask", "boolean mask", False),
        ("windowed", "window 64", False),
        ("training", "forward and backward", False),
        ("training", "forward", False),
        ("model", "all logits", False),
    ],
)
def test_only_plain_calls_are_predicted(experiment: str, variant: str | None, plain: bool) -> None:
    found = agreement.pairs([run_of(experiment, variant)], agreement.TIME)
    assert len(found) == plain


def test_a_published_forward_pass_is_predicted_by_the_data_sheet_of_its_card() -> None:
    found = agreement.pairs(reference_runs()[1:], agreement.TIME)
    assert {pair.run.run_id for pair in found} == {
        f"published-D{number}" for number in ("09", "10", "11", "12")
    }
    assert {pair.point.variant for pair in found} == {"FlashAttention-2"}
    assert all(pair.point.q_len > 1 for pair in found)
    assert agreement.scored(found, 0.25).mean_absolute_error < 0.25


def test_the_prediction_is_that_of_lab_cost() -> None:
    (pair,) = agreement.pairs([run_of("scaling", None)], agreement.TIME)
    point = pair.point
    shape = {
        name: getattr(point, name) for name in ("batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim")
    }
    seconds = predict_attention("naive", cpu("fp32"), **shape, causal=point.causal).seconds
    assert pair.cell.predicted == pytest.approx(seconds)
