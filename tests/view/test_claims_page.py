"""Claims: the ledger counts, opens every claim into its recomputation, and measures what a rule reads back."""

import pytest

from lab.cost import catalog, evidence
from lab.cost.predict import Ceilings
from lab.view import (
    ledger,
)
from tests.view.pages import chart, faults, open_page, words

TRICKS, SERVING, TRAINING, CLAIMS = (
    *("what_each_trick_changes", "serving_budget", "training_and_rules", "claims"),
)
GPT2, LLAMA_2, LLAMA_3 = (catalog.model(name) for name in ("gpt2", "llama-2-7b", "llama-3-8b"))
CEILINGS = Ceilings("a card", "a test", 1e14, 1e12)
H100 = {"model": "llama-3-8b", "context": 8192, "dtype": "bf16", f"{SERVING}_card": "h100-sxm"}


def test_the_ledger_page_counts_the_ledger() -> None:
    at = open_page(CLAIMS)
    counts = evidence.summary()["verdict"]
    assert at.metric[0].value == str(len(evidence.claims()))
    assert f"{counts['holds']} hold" in at.subheader[0].value
    assert f"{counts['wrong']} are wrong" in at.subheader[0].value
    drawn = [row for row in chart(at)[1]["segments"] if row["part"] == "wrong"]
    assert sum(row["end"] - row["start"] for row in drawn) == counts["wrong"]


def test_filters_and_search_leave_what_they_say() -> None:
    at = open_page(
        CLAIMS,
        **{f"{CLAIMS}_source": "overview", f"{CLAIMS}_verdict": "wrong", f"{CLAIMS}_search": "GFLOPs ffn"},
    )
    left = at.dataframe[0].value
    assert 0 < len(left) == int(at.metric[0].value)
    assert set(left["verdict"]) == {"wrong"}
    assert set(left["source"]) == {evidence.SOURCES["overview"]}
    at.session_state[f"{CLAIMS}_search"] = "no such words anywhere"
    at.run()
    assert faults(at) == []
    assert at.metric[0].value == "0"


@pytest.mark.parametrize("claim", evidence.claims(), ids=lambda claim: claim.id)
def test_every_claim_opens_into_its_recomputation(claim: evidence.Claim) -> None:
    lines = ledger.details(claim)
    assert evidence.reason(claim) in lines[-1]
    assert lines[-1].lower().startswith(f"**{claim.verdict}")
    assert not any(word in " ".join(lines).split() for word in ("nan", "inf", "None"))
    found = evidence.recompute(claim)
    assert (found is None) == ("Recomputed:" not in "\n".join(lines))
    assert bool(ledger.compared(claim)) == bool(found and claim.figures)


def test_a_measurable_claim_has_its_button() -> None:
    at = open_page(CLAIMS, **{f"{CLAIMS}_search": "chapter.opening.asked"})
    assert at.button(key=f"measure_{CLAIMS}_chapter.opening.asked").label == "Measure"


@pytest.mark.parametrize("claim", ["chapter.time.eleven", "chapter.decode.bandwidth_b16_t1024"])
def test_a_button_measures_what_a_rule_reads_back(claim: str) -> None:
    at = open_page(CLAIMS, **{f"{CLAIMS}_search": claim})
    assert at.button(key=f"measure_{CLAIMS}_{claim}").label == "Measure"


@pytest.mark.parametrize(
    "claim", ["chapter.opening.backends", "chapter.traffic.rest", "chapter.limits.shape"]
)
def test_a_claim_that_no_rule_reads_says_the_command_in_place_of_a_button(claim: str) -> None:
    at = open_page(CLAIMS, **{f"{CLAIMS}_search": claim})
    assert not [one for one in at.button if str(one.key).startswith("measure_")]
    said = words(at)
    assert "**How to measure it:** `.venv/bin/python -m lab " in said
    assert "No rule reads this figure back" in said
