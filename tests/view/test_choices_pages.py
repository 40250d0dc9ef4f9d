"""The pages on choices and the ledger: their numbers are lab.cost's, and no control breaks them."""

import math
from dataclasses import replace
from itertools import cycle, pairwise
from typing import Any

import pytest

from lab.cost import catalog, evidence
from lab.cost.activations import stored_activations
from lab.cost.deployment import Deployment
from lab.cost.guide import MIXED_ANSWERS, advise, problems, resized
from lab.cost.predict import Ceilings, bound_seconds
from lab.cost.shapes import prefill
from lab.cost.techniques import TECHNIQUES, effects
from lab.cost.terms import TERMS, answer_steps, step_bytes, step_flops
from lab.cost.training import training_budget
from lab.view import (
    capacity,
    guide_table,
    ledger,
    serving_pictures,
    timeline,
    tricks,
)
from lab.view.axes import TOKENS
from lab.view.bars import faded
from lab.view.format import flops_text
from lab.view.palette import DARK, LIGHT
from tests.view.pages import chart, line, open_page, pairs, sweep, words

TRICKS, SERVING, TRAINING, CLAIMS = (
    *("what_each_trick_changes", "serving_budget", "training_and_rules", "claims"),
)
GPT2, LLAMA_2, LLAMA_3 = (catalog.model(name) for name in ("gpt2", "llama-2-7b", "llama-3-8b"))
CEILINGS = Ceilings("a card", "a test", 1e14, 1e12)
H100 = {"model": "llama-3-8b", "context": 8192, "dtype": "bf16", f"{SERVING}_card": "h100-sxm"}


def ends(at: Any) -> dict[str, str]:
    return {row["row"]: row["text"] for row in chart(at)[1]["ends"]}


def controls_of(at: Any) -> list[Any]:
    """Widgets of the page that choose something, the Measure button aside."""
    kinds = (
        "selectbox",
        "button_group",
        "multiselect",
        "text_input",
        "slider",
        "select_slider",
        "file_uploader",
    )
    return [one for kind in kinds for one in at.main.get(kind)]


# What each trick changes


def test_the_bars_are_the_effects_of_the_technique() -> None:
    at = open_page(TRICKS, model="llama-2-7b", context=4096, **{f"{TRICKS}_techniques": ["gqa"]})
    before = Deployment(model=LLAMA_2, batch=1, context=4096, max_context=4096, answers=MIXED_ANSWERS)
    expected = {effect.term: float(effect.factor) for effect in effects(TECHNIQUES["gqa"], before)}
    drawn = {row["row"]: row["start"] for row in chart(at)[1]["segments"] if row["part"] == tricks.LESS}
    assert drawn == expected
    assert drawn["cache needed"] == 1 / 4
    unchanged = {row for row, text in ends(at).items() if "unchanged" in text}
    assert unchanged == set(TERMS) - set(expected)


def test_techniques_combine_in_order_and_those_that_do_not_apply_say_why() -> None:
    plain = Deployment(model=LLAMA_2, batch=2, context=1024, max_context=4096)
    after, applied, refused = tricks.together(plain, ["kv-quantisation", "gqa"])
    assert applied == ["gqa", "kv-quantisation"]
    assert not refused
    assert TERMS["cache needed"].value(after) * 4 * 32 == TERMS["cache needed"].value(plain) * 17
    at = open_page(TRICKS, **{f"{TRICKS}_techniques": ["gqa"]})
    assert "Grouped-query attention: cache needed ÷ 2" in at.subheader[0].value
    assert "GPT-2 small then keeps 6 KV heads in place of 12" in words(at)
    at = open_page(TRICKS, model="llama-3-8b", **{f"{TRICKS}_techniques": ["gqa"]})
    assert "GQA" not in at.subheader[0].value
    assert "Grouped-query attention does not apply: the technique changes nothing in Llama-3-8B." in words(at)


@pytest.mark.parametrize(("technique", "kept"), [("gqa", "18 KiB"), ("mqa", "3 KiB"), ("mla", "6.75 KiB")])
def test_mha_gqa_mqa_and_mla_can_be_walked_on_gpt2_small(technique: str, kept: str) -> None:
    at = open_page(TRICKS, context=1024, **{f"{TRICKS}_techniques": [technique]})
    size, unit = kept.split()
    assert ends(at)["cache needed"].startswith(f"36 MiB → {size} {unit.replace('K', 'M')}")


def test_techniques_are_offered_only_where_they_are_drawn() -> None:
    assert not open_page(TRICKS, **{f"{TRICKS}_shown": "gqa"}).main.get("button_group")
    at = open_page(TRICKS, **{f"{TRICKS}_shown": "gqa"})
    assert "Decode with 1 of 12 KV heads reads 8.3 % of the bytes" in at.subheader[0].value
    assert len(controls_of(open_page(TRICKS))) <= 4


def test_blocks_of_a_prompt_are_shared_by_its_answers() -> None:
    apart, shared = serving_pictures.shared_bytes(GPT2, "fp16", 990, 4)
    block = 16 * GPT2.layers * 2 * GPT2.kv_heads * GPT2.head_dim * 2
    assert (apart, shared) == (4 * 62 * block, (61 + 4) * block)
    said = words(open_page(TRICKS))
    assert "**Sharing.**" in said
    assert "keep its 61 full blocks once" in said


def test_the_state_of_linear_attention_does_not_grow() -> None:
    assert serving_pictures.state_bytes(GPT2, "fp16") == 12 * 12 * 64 * 64 * 2
    said = [words(open_page(TRICKS, context=context)) for context in (1024, 65536)]
    assert all("that state would be 1.12 MiB a sequence" in one for one in said)


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("places", [1, 3, 4, 8, 20])
def test_the_timeline_ends_when_the_last_answer_does(continuous: bool, places: int) -> None:
    turns = tricks.schedule(MIXED_ANSWERS, places, continuous=continuous)
    asked = Deployment(
        model=GPT2, batch=places, context=64, max_context=64, answers=MIXED_ANSWERS, continuous=continuous
    )
    assert max(turn.end for turn in turns) == answer_steps(asked)
    assert [turn.end - turn.start for turn in turns] == list(MIXED_ANSWERS)
    for place in {turn.place for turn in turns}:
        own = sorted((turn.start, turn.end) for turn in turns if turn.place == place)
        assert all(end <= start for (_, end), (start, _) in pairwise(own))


def test_paging_reserves_whole_blocks_and_wastes_less() -> None:
    found = tricks.paging(GPT2, "fp16")
    token = GPT2.layers * 2 * GPT2.kv_heads * GPT2.head_dim * 2
    assert found.needed_bytes == token * sum(tricks.CACHED_TOKENS)
    assert found.blocks_bytes == token * sum(16 * math.ceil(one / 16) for one in tricks.CACHED_TOKENS)
    assert found.contiguous_bytes == token * len(tricks.CACHED_TOKENS) * found.longest
    reserved = sum(one.end - one.start for one in tricks.paging_bars(LIGHT, blocks=True).segments)
    assert token * reserved == found.blocks_bytes


@pytest.mark.parametrize("problem", problems(LLAMA_2), ids=lambda problem: problem.id)
def test_the_guide_answers_each_question_by_its_numbers(problem: Any) -> None:
    assert set(guide_table.QUESTIONS) == {one.id for one in problems(LLAMA_2)}
    advice = advise(problem, capacity.known(catalog.card("h100-sxm")).bytes)
    at = open_page(TRICKS, model="llama-2-7b", **{f"{TRICKS}_problem": problem.id})
    assert guide_table.verdict(advice, True) in words(at)
    rows = guide_table.guide_table(advice, True)
    solving = set(rows[rows["fits then" if problem.memory_decides else "helps"] == "yes"]["technique"])
    assert solving == {TECHNIQUES[name].name for name in advice.solved_by}


def test_the_guide_takes_the_scenarios_sizes_and_type_and_says_where_nothing_is_to_solve() -> None:
    state = {f"{TRICKS}_problem": "cache-memory"}
    said = words(open_page(TRICKS, model="llama-2-7b", batch=3, context=2048, dtype="fp32", **state))
    assert "LLaMA-2-7B, 3 sequences of 2,048 tokens, fp32" in said
    case = resized(problems(LLAMA_2)[2], 3, 2048, "fp32").deployment
    assert (case.dtype, case.k_type, case.v_type) == ("fp32", "fp32", "fp32")
    assert "nothing to solve on this card" in said


@pytest.mark.parametrize("names", [(), ("gqa",), ("gqa", "mqa")])
def test_the_guides_verdict_agrees_with_how_many_techniques_solve_it(names: tuple[str, ...]) -> None:
    advice = advise(problems(LLAMA_2)[2], 80 * 10**9)
    kept = tuple(option for option in advice.options if option.technique in names)
    options = kept if names else tuple(replace(one, fits=False) for one in advice.options)
    said = guide_table.verdict(replace(advice, options=options), True)
    assert (
        "Not one of these makes it fit",
        "One technique makes it fit",
        "Each of these alone makes it fit",
    )[len(names)] in said


# Training and rules


@pytest.mark.parametrize("model", [GPT2, LLAMA_2, LLAMA_3], ids=lambda model: model.id)
@pytest.mark.parametrize("way", timeline.WAYS)
def test_the_step_peaks_where_lab_cost_says_and_ends_with_nothing(model: Any, way: str) -> None:
    work = prefill(2, 512, "bf16")
    curve = timeline.kept_over_step(model, work, way)
    assert max(size for _, size in curve) == stored_activations(model, work, **timeline.WAYS[way]).peak_bytes
    assert curve[0] == (0, 0)
    assert curve[-1] == (2 * model.layers + 1, 0)


def test_training_page_shows_the_step_of_lab_cost() -> None:
    at = open_page(TRAINING, model="llama-2-7b", context=2048, batch=4)
    work = prefill(4, 2048, "fp16")
    assert at.metric[0].value == flops_text(training_budget(LLAMA_2, work).total_flops)
    for way in timeline.WAYS:
        drawn = max(line(at, way).values())
        assert drawn == stored_activations(LLAMA_2, work, **timeline.WAYS[way]).peak_bytes


def test_the_doubling_table_is_each_term_twice() -> None:
    now = Deployment(model=GPT2, batch=3, context=512, max_context=512)
    found = {row.name: row for row in timeline.doublings(now, CEILINGS)}
    longer, wider = replace(now, context=1024, max_context=1024), replace(now, batch=6)
    for name in set(TERMS) - {"answer steps"}:
        assert found[name].context * TERMS[name].value(now) == TERMS[name].value(longer)
        assert found[name].batch * TERMS[name].value(now) == TERMS[name].value(wider)
    assert found["weights"].context == 1
    assert found["cache needed"].context == found["cache needed"].batch == 2
    assert 3.9 < found["attention FLOPs"].context < 4
    steps = [bound_seconds(step_flops(one), step_bytes(one), CEILINGS).seconds for one in (now, longer)]
    assert float(found["latency of a step, at least"].context) == pytest.approx(steps[1] / steps[0])
    assert 2 < found["latency of a prompt, products and weights alone"].context < 4


# Words and colours


def test_one_of_what_is_counted_is_written_in_the_singular() -> None:
    lone = [claim for claim in evidence.claims() if ledger.printed_text(claim).split()[:1] == ["1"]]
    assert lone
    plurals = {"1 tokens", "1 tensors", "1 passes", "1 heads", "1 sequences", "1 backends", "1 FLOPs"}
    every = [ledger.printed_text(claim) for claim in evidence.claims()]
    every += [ledger.recomputed_text(claim) for claim in evidence.claims()]
    assert not plurals & set(every)


# All four


def test_thin_colours_lie_between_the_colour_and_the_page() -> None:
    assert faded("#000000", LIGHT) == "#808080"
    assert faded(DARK.text, DARK, 1) == DARK.text
    assert faded(DARK.text, DARK, 0) == DARK.background


def test_every_technique_alone_and_all_together_break_nothing() -> None:
    models = ("gpt2", "llama-2-7b", "deepseek-v3")
    chosen = [*([name] for name in TECHNIQUES), list(TECHNIQUES), []]
    assert sweep(TRICKS, pairs(**{f"{TRICKS}_techniques": chosen}, model=models, batch=(16,))) == []


@pytest.mark.parametrize(
    ("file", "controls"),
    [
        (SERVING, {"shown": ("by_type", "by_card")}),
        (TRAINING, {"shown": ("step", "factors", "peaks"), "scale": ("log",)}),
        (
            TRICKS,
            {"problem": tuple(guide_table.QUESTIONS), "shown": ("windowed", "gqa", "kv_int8", "memory")},
        ),
    ],
)
def test_every_model_breaks_no_view(file: str, controls: dict[str, tuple[str, ...]]) -> None:
    turns = {f"{file}_{name}": cycle(values) for name, values in controls.items()}
    scene = {"context": TOKENS[-1], "batch": 1024, "dtype": "bf16"}
    states = [
        scene | {"model": model} | {name: next(values) for name, values in turns.items()}
        for model in catalog.models()
    ]
    assert sweep(file, states) == []


def test_every_card_and_meaning_breaks_nothing() -> None:
    cards = [key for key, one in catalog.hardware().items() if one.memory_bytes]
    control = {"card": cards, "meaning": capacity.MEANINGS, "shown": ("memory", "by_card")}
    states = pairs(
        **{f"{SERVING}_{name}": values for name, values in control.items()}, dtype=("bf16", "fp32")
    )
    assert sweep(SERVING, states) == []


@pytest.mark.parametrize("name", ["source", "verdict", "category"])
def test_every_filter_breaks_nothing(name: str) -> None:
    options = {"source": evidence.SOURCES, "verdict": evidence.VERDICTS, "category": evidence.CATEGORIES}
    assert sweep(CLAIMS, [{f"{CLAIMS}_{name}": value} for value in options[name]]) == []
