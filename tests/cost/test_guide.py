import pytest

from lab.cost import catalog
from lab.cost.guide import FIT, guide, problems
from lab.cost.techniques import TECHNIQUES
from lab.cost.terms import TERMS

DEVICE = 80 * 10**9
ROWS = {advice.problem.id: advice for advice in guide(catalog.model("llama-2-7b"), DEVICE)}


def option(row, technique):
    return next(option for option in ROWS[row].options if option.technique == technique)


def effect(row, technique, term):
    return next(effect for effect in option(row, technique).effects if effect.term == term)


def test_the_five_problems_of_the_source_with_the_techniques_it_names():
    named = {advice.problem.text: advice.problem.named for advice in ROWS.values()}
    assert named == {
        "Training too slow": ("flash", "fusion"),
        "Long context OOM (compute)": ("window",),
        "Long context OOM (KV cache)": ("gqa", "mqa", "kv-quantisation"),
        "Decode latency high": ("kv-cache", "continuous-batching"),
        "Many concurrent long requests": ("paging",),
    }


@pytest.mark.parametrize("problem", problems(catalog.model("llama-2-7b")), ids=lambda problem: problem.id)
def test_problems_name_known_techniques_and_terms(problem):
    assert set(problem.named) | set(problem.others) <= TECHNIQUES.keys()
    assert set(problem.decides) <= TERMS.keys() | {FIT}


@pytest.mark.parametrize("advice", ROWS.values(), ids=ROWS)
def test_memory_problems_really_do_not_fit_before(advice):
    if advice.problem.memory_decides:
        assert advice.memory_bytes > DEVICE
        assert not advice.fits


def test_slow_training_is_traffic_that_flash_cuts_a_hundredfold():
    assert effect("training-slow", "flash", "attention traffic").factor < 0.01
    assert 0.3 < effect("training-slow", "fusion", "attention traffic").factor < 0.5
    assert ROWS["training-slow"].solved_by == ("flash", "fusion")


def test_a_window_alone_does_not_cure_the_long_prompt_that_flash_cures():
    """The source names only the window: with a kernel that writes the scores it still runs out of memory."""
    assert ROWS["prompt-memory"].solved_by == ("flash",)
    assert option("prompt-memory", "window").helps
    assert effect("prompt-memory", "window", "attention FLOPs").factor < 0.25


def test_every_technique_named_for_the_cache_makes_it_fit():
    advice = ROWS["cache-memory"]
    assert set(advice.problem.named) <= set(advice.solved_by)
    assert effect("cache-memory", "gqa", FIT).before == 15
    assert effect("cache-memory", "gqa", FIT).after == 63


def test_decode_gains_from_less_cache_and_from_places_given_on():
    assert effect("decode-slow", "kv-cache", "step FLOPs").factor < 0.001
    assert [effect.term for effect in option("decode-slow", "continuous-batching").effects] == [
        "answer steps"
    ]
    assert effect("decode-slow", "gqa", "step bytes").factor < 0.6


def test_paging_multiplies_the_long_requests_that_fit():
    found = effect("many-requests", "paging", FIT)
    assert (found.before, found.after) == (3, 15)
    assert "paging" in ROWS["many-requests"].solved_by


@pytest.mark.parametrize("model_id", list(catalog.models()))
def test_the_guide_can_be_computed_for_every_model_of_the_catalogue(model_id):
    rows = guide(catalog.model(model_id), DEVICE)
    assert len(rows) == 5
    assert all(advice.options for advice in rows)
