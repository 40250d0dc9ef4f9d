"""The decision guide as a table: what each technique does to the terms that decide."""

from __future__ import annotations

import pandas as pd

from lab.cost.guide import Advice, Option
from lab.cost.techniques import TECHNIQUES
from lab.view.format import bytes_text
from lab.view.tricks import amount

QUESTIONS = {
    "training-slow": "Training or prefill too slow?",
    "prompt-memory": "Out of memory while reading a long prompt?",
    "cache-memory": "Out of memory for the KV cache?",
    "decode-slow": "Answers come too slowly?",
    "many-requests": "Many long requests at once?",
}
"""How a reader would ask for each problem of the guide."""


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
        f"**{problem.text}.** The case: {case.model.name}, {case.batch:,} × {case.context:,} tokens, "
        f"{case.dtype}."
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
        sentences.append(f"**One technique that makes it fit: {solved or 'none of these'}.**")
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
