"""The ledger cannot drift: stored verdicts are the computed ones, and the comparison can fail."""

import re
from dataclasses import replace
from fractions import Fraction

import pytest

from lab.cost import evidence
from lab.cost.catalog import hardware
from lab.cost.claims import caches, ledger, models
from lab.cost.claims.facts import tables
from lab.cost.claims.printed import Figure, Interval, read_figure
from lab.cost.evidence import Claim, judge, reason, recompute, verdict

CLAIMS = evidence.claims()
RECOMPUTED = [claim for claim in CLAIMS if claim.formula]
HOLDING = [claim for claim in RECOMPUTED if claim.verdict == "holds"]
FAULTY = [claim for claim in CLAIMS if claim.verdict in ("wrong", "holds in part")]


def by_id(claims: list[Claim] | tuple[Claim, ...]) -> dict[str, list]:
    return {"argvalues": list(claims), "ids": [claim.id for claim in claims]}


def claim_named(name: str) -> Claim:
    (found,) = [claim for claim in CLAIMS if claim.id == name]
    return found


def moved(figure: Figure, by: Fraction) -> Figure:
    return Figure(str(float(figure.interval.value + by)), figure.half_width)


@pytest.mark.parametrize("claim", **by_id(CLAIMS))
def test_stored_verdict_is_the_computed_one(claim: Claim) -> None:
    assert verdict(claim) == claim.verdict


@pytest.mark.parametrize("claim", **by_id(CLAIMS))
def test_every_claim_is_complete(claim: Claim) -> None:
    for name in ("id", "source", "section", "says", "category", "precision", "verdict", "why"):
        assert getattr(claim, name).strip(), name
    assert claim.figures or claim.verdict == "needs a run"
    assert claim.id.startswith(f"{claim.source}.")
    assert len(claim.says) < 130
    assert len(re.findall(r"\.( |$)", claim.why)) <= 3
    assert not re.search(r"[{}]|nan|inf\b", reason(claim))
    if claim.verdict == "needs a run":
        assert claim.experiment
    if claim.formula:
        found = recompute(claim)
        assert found is not None
        assert found.formula.endswith(".")
        assert len(claim.labels) == (len(found.value) if len(found.value) > 1 else 0)


def test_ids_are_unique() -> None:
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)


@pytest.mark.parametrize("claim", **by_id(FAULTY))
def test_wrong_claims_carry_the_right_value_and_it_passes_where_the_print_fails(claim: Claim) -> None:
    found = recompute(claim)
    assert found is not None
    right = tuple(read_figure(text) for text in claim.right)
    assert all(judge(right, claim.relation, found.intervals))
    assert not all(judge(claim.figures, claim.relation, found.intervals))


@pytest.mark.parametrize("claim", **by_id([claim for claim in CLAIMS if claim not in FAULTY]))
def test_other_claims_carry_no_right_value(claim: Claim) -> None:
    assert claim.right == ()


@pytest.mark.parametrize("claim", **by_id(HOLDING))
def test_a_claim_moved_beyond_its_precision_no_longer_holds(claim: Claim) -> None:
    for index in range(len(claim.figures)):
        for figure in beyond_what_the_print_allows(claim, index):
            figures = (*claim.figures[:index], figure, *claim.figures[index + 1 :])
            assert verdict(replace(claim, figures=figures)) != "holds"


def beyond_what_the_print_allows(claim: Claim, index: int) -> list[Figure]:
    """Move one figure just past its own rounding and that of the recomputation's inputs, each way."""
    figure, found = claim.figures[index], recompute(claim)
    assert found is not None
    at, half, a_little = figure.interval.value, figure.half_width, abs(figure.interval.value) / 10**9
    if claim.relation == "at_least":
        return [moved(figure, min(one.high for one in found.intervals) + half + a_little - at)]
    if claim.relation == "at_most":
        return [moved(figure, max(one.low for one in found.intervals) - half - a_little - at)]
    assert claim.relation == "equal"
    step = 2 * half + max(one.high - one.low for one in found.intervals) + a_little
    return [moved(figure, step), moved(figure, -step)]


def test_no_precision_is_wide_enough_to_hide_a_factor_of_two() -> None:
    """Save one: the table prints 0.75 MiB as 1, and no single digit can tell that from 0.5."""
    hidden = {
        claim.id
        for claim in HOLDING
        for factor in (Fraction(1, 2), Fraction(2))
        if claim.relation == "equal" and verdict(replace(claim, figures=scaled(claim, factor))) == "holds"
    }
    assert hidden == {"chapter.memory.efficient_t512"}


def scaled(claim: Claim, factor: Fraction) -> tuple[Figure, ...]:
    return tuple(moved(figure, figure.interval.value * (factor - 1)) for figure in claim.figures)


def test_a_cost_model_without_the_factor_for_k_and_v_would_change_verdicts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The verdicts come from lab.cost: break a formula and the ledger notices."""
    right_kv_bytes = caches.kv_bytes
    monkeypatch.setattr(caches, "kv_bytes", lambda *sizes: right_kv_bytes(*sizes) // 2)
    assert verdict(claim_named("overview.cache.size")) == "holds"
    assert verdict(claim_named("overview.cache.formula")) == "holds"
    assert verdict(claim_named("chapter.decode.cache_1024")) == "wrong"


@pytest.mark.parametrize(
    ("name", "expected", "values"),
    [
        ("overview.cache.size", "wrong", [2**32 / 1e9]),
        ("overview.budget.cache_token", "wrong", [512]),
        ("overview.flops.layer", "wrong", [1099.511627776]),
        ("overview.flops.prompt", "wrong", [35184.372088832]),
        ("overview.ffn.layer", "wrong", [6 * 8192 * 4096 * 11008 / 1e9]),
        ("overview.ffn.crossing", "wrong", [16512]),
        ("overview.budget.sequences", "wrong", [15]),
        ("chapter.decode.range", "holds in part", [48 * 2**20 / 205e3, 3 * 2**30 / 12226e3]),
        ("chapter.decode.fifty", "holds in part", [15.36, 3 * 2**20 / 64.7e3, 48 * 2**20 / 1007e3]),
        ("chapter.model.faster_t512", "wrong", [100 * (31.1 / 26.8 - 1)]),
        ("chapter.model.faster_t1024", "wrong", [100 * (71.4 / 54.7 - 1)]),
        ("chapter.time.throughput", "holds", [11.5156, 17.2683]),
    ],
)
def test_errors_known_beforehand_are_found_with_the_right_value(
    name: str, expected: str, values: list[float]
) -> None:
    claim = claim_named(name)
    found = recompute(claim)
    assert found is not None
    assert claim.verdict == expected
    assert found.value == pytest.approx(values, rel=1e-5)


def test_attention_passes_the_ffn_later_still_when_causal() -> None:
    assert models.attention_passes_ffn("llama-2-7b", causal=True)[0].value == 33023


def test_a_card_without_the_figure_is_refused() -> None:
    unknown = next(card for card, sheet in hardware().items() if sheet.compute_capability is None)
    with pytest.raises(ValueError, match="card must be one whose compute_capability is established"):
        caches.card_capability(unknown)


def test_a_refit_within_the_rounding_of_its_inputs_is_not_called_wrong() -> None:
    found = recompute(claim_named("chapter.time.exponent_fp16_efficient"))
    assert found is not None
    assert found.value[0] == pytest.approx(1.81, abs=0.005)
    assert found.low[0] < 1.815 < found.high[0] < 1.85


def test_measured_cells_are_read_from_the_data_file_with_their_digits() -> None:
    claim = claim_named("chapter.time.t8192")
    assert [figure.printed for figure in claim.figures] == ["67.0", "5.97", "155.8", "26.0"]
    assert claim.figures[0].half_width == Fraction(1, 20)


def test_every_measured_cell_of_the_chapter_is_claimed() -> None:
    claimed = sorted(f.value for c in CLAIMS if c.source == "chapter" for f in c.figures)
    data = tables()
    rows = [*data["time_ms"], *data["peak_extra_memory_mib_fp16"], *data["max_abs_error_vs_float64"]]
    rows += [*data["gpt2_fp32_batch1"], *data["decode_fp16_one_layer_12_heads_of_64"]]
    cells = [
        value for row in rows for key, value in row.items() if key not in ("T", "tokens", "batch", "dtype")
    ]
    cells += list(data["fitted_exponents_T_ge_1024"].values())
    cells += [
        ratio for name in ("efficient", "math", "naive") for ratio in data["causal_over_full_time"][name]
    ]
    for value in map(float, cells):
        claimed.remove(value)


def test_every_formula_is_used() -> None:
    used = {claim.formula for claim in RECOMPUTED}
    used |= {step["formula"] for exercise in evidence.exercises() for step in exercise.steps}
    used |= {step["formula"] for claim in CLAIMS for step in claim.steps.values()}
    assert used == set(ledger.FORMULAS)


def test_the_eight_exercises_have_an_answer() -> None:
    exercises = evidence.exercises()
    assert [exercise.number for exercise in exercises] == list(range(1, 9))
    for exercise in exercises:
        assert exercise.asks
        assert exercise.answer
        assert exercise.steps or exercise.experiment in evidence.EXPERIMENTS


def test_exercise_numbers() -> None:
    answers = {
        exercise.number: [found.value[0] for _, found in evidence.solve(exercise)]
        for exercise in evidence.exercises()
    }
    assert answers[1][:2] == [4, 4]
    assert answers[8] == [6703, 13404, 4608, 9215]
    assert answers[6] == [pytest.approx(50257 / 24)]


def test_summary_counts_every_claim_once_in_each_view() -> None:
    counts = evidence.summary()
    assert {name: sum(view.values()) for name, view in counts.items()} == dict.fromkeys(counts, len(CLAIMS))
    assert set(counts["verdict"]) == set(evidence.VERDICTS)
    assert set(counts["category"]) == set(evidence.CATEGORIES)


def test_judge_refuses_figures_that_do_not_pair_up() -> None:
    one = Interval(Fraction(1), Fraction(1), Fraction(1))
    with pytest.raises(ValueError, match="figures must number one or as many as the values, got 2 and 3"):
        judge((read_figure("1"), read_figure("2")), "equal", (one, one, one))
    with pytest.raises(ValueError, match="relation must be one of"):
        judge((read_figure("1"),), "near", (one,))
