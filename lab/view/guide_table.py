"""The decision guide as a table: what each technique does to the terms that decide."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from lab.cost import catalog
from lab.cost.guide import Advice, Option, advise, problems, resized
from lab.cost.techniques import TECHNIQUES
from lab.view import capacity, controls, skeleton
from lab.view.counted import counted
from lab.view.format import bytes_text, whole
from lab.view.scenario import Scenario
from lab.view.tricks import amount

FIRST_CARD = "h100-sxm"

QUESTIONS = {
    "training-slow": "Training or prefill too slow?",
    "prompt-memory": "Out of memory while reading a long prompt?",
    "cache-memory": "Out of memory for the KV cache?",
    "decode-slow": "Answers come too slowly?",
    "many-requests": "Many long requests at once?",
}
"""How a reader would ask for each problem of the guide."""


def show(page: str, scene: Scenario) -> None:
    """The guide: a problem, a card, and what solves it, in the source's case and in the scenario's.

    Args:
        page: the page's file name.
        scene: the scenario.
    """
    st.subheader("Which one fits my problem?", anchor=False)
    asked, on_card = st.columns(2)
    with asked:
        problem_id = controls.pick(page, "problem", "Problem", QUESTIONS)
    with on_card:
        known = {key: (card.name, capacity.known(card)) for key, card in catalog.hardware().items()}
        memories = {key: found.bytes for key, (_, found) in known.items() if found is not None}
        names = {key: known[key][0] for key in (FIRST_CARD, *memories)}
        card = controls.pick(page, "card", "Card", names, "The memory its driver reports decides.")
    problem = next(one for one in problems(scene.model) if one.id == problem_id)
    mine = resized(problem, scene.batch, scene.context, scene.dtype)
    memory = memories[card]
    _answer(advise(problem, memory), scene.binary)
    with st.expander(
        f"The same for {counted(scene.batch, 'sequence')} of {whole(scene.context)} tokens in {scene.dtype}, as chosen"
    ):
        _answer(advise(mine, memory), scene.binary)


def _answer(advice: Advice, binary: bool) -> None:
    st.markdown(verdict(advice, binary))
    skeleton.table(guide_table(advice, binary))


def guide_table(advice: Advice, binary: bool) -> pd.DataFrame:
    """One row a technique that was tried on the problem.

    Args:
        advice: from `lab.cost.guide.advise`.
        binary: write bytes in KiB, MiB, GiB.
    """
    rows = []
    for option in advice.options:
        row = {
            "technique": TECHNIQUES[option.technique].name,
            _asked(advice): "yes" if option.technique in advice.solved_by else _no(advice, option),
            "the source names it": "yes" if option.named else "no",
        }
        if advice.problem.memory_decides and option.memory_bytes is not None:
            row["then needs"] = bytes_text(option.memory_bytes, binary)
        rows.append(row | {"terms that decide": _effects(option, binary)})
    return pd.DataFrame(rows)


def verdict(advice: Advice, binary: bool) -> str:
    """The case, what it needs, and what solves it, in words.

    Args:
        advice: from `lab.cost.guide.advise`.
        binary: write bytes in KiB, MiB, GiB.
    """
    case, problem = advice.problem.deployment, advice.problem
    sentences = [
        f"**{problem.text}.** The case: {case.model.name}, {counted(case.batch, 'sequence')} of "
        f"{whole(case.context)} tokens, {case.dtype}."
    ]
    if problem.memory_decides and advice.memory_bytes is not None:
        need, have = bytes_text(advice.memory_bytes, binary), bytes_text(advice.device_bytes, binary)
        sentences.append(
            f"It needs {need} and fits the card's {have} as it is."
            if advice.fits
            else f"It needs {need} of the card's {have}."
        )
    solved = ", ".join(TECHNIQUES[name].name for name in advice.solved_by)
    if problem.memory_decides and advice.fits:
        sentences.append("**There is nothing to solve on this card;** the table says what each would save.")
    elif problem.memory_decides:
        alone = "Each of these alone makes" if len(advice.solved_by) > 1 else "One technique makes"
        sentences.append(
            f"**{alone} it fit: {solved}.**" if solved else "**Not one of these makes it fit by itself.**"
        )
    else:
        sentences.append(f"**What helps by itself: {solved or 'none of these'}.**")
    unknown = dict.fromkeys(name for option in advice.options for name in option.unknown)
    if unknown:
        sentences.append(f"Not modelled where K and V differ in width: {', '.join(unknown)}.")
    return " ".join(sentences)


def _asked(advice: Advice) -> str:
    """The column's question."""
    return "fits then" if advice.problem.memory_decides else "helps"


def _no(advice: Advice, option: Option) -> str:
    """No, or not known."""
    decided = advice.problem.memory_decides and option.fits is not None
    return "not modelled" if option.unknown and not decided else "no"


def _effects(option: Option, binary: bool) -> str:
    """The deciding terms before and after one technique."""
    words = (
        f"{effect.term}: {amount(effect.before, effect.unit, binary)} → "
        f"{amount(effect.after, effect.unit, binary)}"
        for effect in option.effects
    )
    unknown = (f"{name}: not modelled" for name in option.unknown)
    return "; ".join((*words, *unknown)) or "none of them moves"
