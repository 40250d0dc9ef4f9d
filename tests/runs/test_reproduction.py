"""Claims read from runs: the same figure, the same side of one, another figure, and what needs no figure."""

from typing import Any

import pytest

from lab.cost import evidence
from lab.runs import Timing, reference_runs
from lab.runs.reproduction import batches_of, lengths_of, measurable, reproduce
from tests.view.points_of import point, run

CHAPTER = reference_runs()[0]
CLAIMS = {claim.id: claim for claim in evidence.claims()}


def timed(seconds: float, **changes: Any) -> Any:
    samples = tuple(seconds * factor for factor in (0.999, 1.0, 1.001))
    return point(timing=Timing(seconds, samples[0], samples[2], 3, samples, first_call_s=seconds), **changes)


def test_nearly_every_claim_that_needs_a_run_has_a_rule_and_no_claim_without_an_experiment() -> None:
    needing = {claim.id for claim in CLAIMS.values() if claim.verdict == "needs a run"}
    ruled = {claim.id for claim in CLAIMS.values() if measurable(claim)}
    assert all(CLAIMS[name].experiment for name in ruled)
    assert needing - ruled == {"chapter.limits.isolated", "chapter.evidence.unmeasured"}


@pytest.mark.parametrize(("mib", "outcome"), [(21, "same figure here"), (13, "another figure here")])
def test_a_peak_is_held_to_the_digits_that_were_printed(mib: int, outcome: str) -> None:
    peak = point(experiment="memory", peak_extra_bytes=mib * 2**20, timing=None)
    found = reproduce(CLAIMS["chapter.memory.naive_t512"], [run(peak)])
    assert found.outcome == outcome
    assert found.values[0].value == mib
    assert reproduce(CLAIMS["chapter.memory.naive_t2048"], [run(peak)]) is None


@pytest.mark.parametrize(
    ("masked", "outcome"),
    [(1.69e-3, "same figure here"), (1.2e-3, "same direction here"), (0.8e-3, "another figure here")],
)
def test_a_ratio_may_lie_on_the_same_side_of_one(masked: float, outcome: str) -> None:
    shape = {"experiment": "causal", "implementation": "naive", "kv_len": 1024, "q_len": 1024}
    found = reproduce(
        CLAIMS["chapter.causal.naive"],
        [run(timed(masked, causal=True, **shape), timed(1e-3, causal=False, **shape))],
    )
    assert (found.outcome, len(found.values)) == (outcome, 1)
    assert found.values[0].value == pytest.approx(masked / 1e-3)


def test_newer_runs_and_the_printed_width_of_a_type_come_first() -> None:
    old, new = (timed(seconds, kv_len=512) for seconds in (9e-3, 0.29e-3))
    found = reproduce(CLAIMS["chapter.time.t512"], [run(new), run(old)])
    assert [(value.label, value.value) for value in found.values] == [("naive, bf16", pytest.approx(0.29))]
    assert found.outcome == "same figure here"


PAIRS = {
    "chapter.causal.naive": ({"causal": True}, {"causal": False}),
    "chapter.model.times_t512": ({"implementation": "eager"}, {"implementation": "sdpa"}),
    "chapter.correction.ratios": ({"implementation": "naive"}, {"implementation": "sdpa"}),
    "chapter.evidence.model_peak": ({"implementation": "eager"}, {"implementation": "sdpa"}),
}


@pytest.mark.parametrize("claim", PAIRS)
def test_figures_are_compared_only_within_one_run_batch_and_type(claim: str) -> None:
    experiment = CLAIMS[claim].experiment
    length = 1024 if experiment == "causal" else 512
    shape = {"experiment": experiment, "kv_len": length, "q_len": length}
    shape |= {"variant": "all logits"} if experiment == "model" else {}
    first, second = ({**shape, **changes} for changes in PAIRS[claim])
    other = {"seconds": 9e-3, "peak_extra_bytes": 99 * 2**20}
    older = run(timed(2e-3, **first), timed(1e-3, **second))
    newer = run(
        timed(**other, **first),  # its second is of another batch, of another type, or failed
        timed(**other, **second, batch=2),
        timed(**other, **second, dtype="fp32"),
        timed(**other, **second, status="wrong", reason="inverted"),
    )
    found = reproduce(CLAIMS[claim], [newer, older])
    assert found is not None
    assert found == reproduce(CLAIMS[claim], [older])
    assert reproduce(CLAIMS[claim], [newer]) is None
    apart = [run(timed(2e-3, **first)), run(timed(1e-3, **second))]
    assert reproduce(CLAIMS[claim], apart) is None


def test_the_best_implementation_of_a_pair_is_the_same_on_both_sides() -> None:
    shape = {"experiment": "causal", "kv_len": 1024, "q_len": 1024}
    points = [timed(1e-3, implementation="flash", causal=mask, **shape) for mask in (True, False)]
    points += [timed(9e-3, implementation="efficient", causal=True, **shape)]
    found = reproduce(CLAIMS["chapter.causal.efficient"], [run(*points)])
    assert [value.label for value in found.values] == ["flash at T = 1,024"]
    points += [timed(3e-3, implementation="efficient", causal=False, **shape)]
    found = reproduce(CLAIMS["chapter.causal.efficient"], [run(*points)])
    assert [value.value for value in found.values] == [pytest.approx(3)]


@pytest.mark.parametrize(
    ("seconds", "outcome"),
    [(0.5e-3, "supported here"), (2e-3, "not supported here"), (1.001e-3, "open here")],
)
def test_splitting_helps_where_it_is_faster_than_one_part(seconds: float, outcome: str) -> None:
    shape = {"experiment": "split_kv", "implementation": "split_kv", "q_len": 1, "kv_len": 4096}
    points = [
        timed(1e-3, variant="1 part, matmul", **shape),
        timed(seconds, variant="4 parts, matmul", **shape),
        timed(0.1e-3, variant="8 parts, compiled", **shape),  # without a control of its own
    ]
    found = reproduce(CLAIMS["chapter.decode.parallelism"], [run(*points)])
    assert found.outcome == outcome
    assert found.says.startswith("4 parts, matmul")


def test_a_claim_names_its_lengths() -> None:
    assert lengths_of(CLAIMS["chapter.decode.time_b16_t16384"]) == (16384,)
    assert lengths_of(CLAIMS["chapter.causal.math"]) == (1024, 2048, 4096)
    assert lengths_of(CLAIMS["chapter.limits.flash"]) == ()


DERIVED = {
    name for name, claim in CLAIMS.items()
    if measurable(claim) and claim.experiment in ("memory", "scaling", "decode") and claim.verdict == "holds"
    and claim.formula is not None
}  # fmt: skip


def test_figures_derived_from_the_chapters_tables_are_many() -> None:
    assert len(DERIVED) > 30


@pytest.mark.parametrize("name", sorted(DERIVED))
def test_a_figure_is_derived_from_points_as_from_the_printed_tables(name: str) -> None:
    """The recorded points are the printed ones: both ways of deriving a figure must agree."""
    found, recomputed = reproduce(CLAIMS[name], [CHAPTER]), evidence.recompute(CLAIMS[name])
    assert found is not None
    spans = zip(recomputed.low, recomputed.high, strict=True)
    bounds = dict(enumerate((float(low) * (1 - 1e-9), float(high) * (1 + 1e-9)) for low, high in spans))
    for place, value in enumerate(found.values):
        low, high = bounds.get(place, (0.0, 0.0))
        assert value.agrees or low <= value.value <= high


def test_an_exponent_needs_two_lengths_of_one_run() -> None:
    claim = CLAIMS["chapter.time.exponent_fp16_naive"]
    points = [timed(seconds, kv_len=length) for length, seconds in ((1024, 1e-3), (2048, 4e-3))]
    short = timed(1e-6, kv_len=512)
    assert reproduce(claim, [run(points[0], short), run(points[1])]) is None
    found = reproduce(claim, [run(points[0], short), run(*points, short)])
    assert found is not None
    assert found.values[0].value == pytest.approx(2)


def test_a_gain_of_the_whole_model_is_read_both_ways() -> None:
    shape = {"experiment": "model", "kv_len": 512, "q_len": 512, "variant": "all logits"}
    both = run(timed(2e-3, implementation="eager", **shape), timed(1.6e-3, implementation="sdpa", **shape))
    for name, percent in (("faster", 25), ("saved", 20)):
        found = reproduce(CLAIMS[f"chapter.model.{name}_t512"], [both])
        assert found is not None
        assert found.values[0].value == pytest.approx(percent)


def test_a_claims_run_asks_for_its_lengths_and_batches() -> None:
    assert lengths_of(CLAIMS["chapter.time.eleven"]) == (8192,)
    assert lengths_of(CLAIMS["chapter.time.exponent_fp16_naive"]) == (1024, 2048, 4096)
    assert batches_of(CLAIMS["chapter.decode.fifty"]) == (1,)
    assert batches_of(CLAIMS["chapter.decode.bandwidth_b64_t1024"]) == (64,)
