"""The symbols of the pages' formulas: one meaning each, on every page, said under the formula that uses them."""

from __future__ import annotations

import re

MEANINGS = {
    "B": "sequences in the batch",
    "h": "query heads",
    "T": "context in tokens",
    "T_q": "new tokens, the queries",
    "T_kv": "tokens attended to, the keys",
    "d": "the model's width",
    "d_k": "width of a head's queries and keys",
    "d_v": "width of a head's values",
    "b": "bytes of one number",
    "S": "one score tensor",
    "i": "a position",
    "V": "words of the vocabulary",
    "L": "layers of one kind",
    "w": "a layer's window in tokens",
    "n": "sequences that fit",
    "n_in": "width before a product",
    "n_out": "width after it",
    "N": "cells compared",
    "u": "share of the memory that may be filled",
    "M": "memory of the card",
    "W": "bytes of the weights",
    "W_read": "bytes of the weights that a step reads",
    "KV": "bytes of the cache",
    "k": "bytes of a token's key in one layer",
    "v": "bytes of a token's value",
    "P": "FLOPs a second that the device reaches at most",
    "BW": "bytes a second that its memory moves at most",
    "t": "time",
    "p": "fitted exponent",
    "c": "fitted factor",
    "I": "arithmetic intensity, FLOPs a byte",
    "F": "FLOPs of the forward pass",
    "R": "FLOPs computed again",
    "m": "running maximum",
    "l": "running sum",
    "o": "running output",
    "s_j": "score of key j",
    "v_j": "value of key j",
    "x": "printed figure",
    "δ": "half a unit of its last digit",
}
"""What each symbol stands for; a subscript in words names a case of it and needs no entry of its own."""

_UPRIGHT = ("KV", "BW")
_GREEK = {r"\delta": " δ "}


def used(formula: str) -> list[str]:
    """The symbols of a formula, in the order of their first use.

    Args:
        formula: in LaTeX.

    Returns:
        Keys of MEANINGS where the table has them; others as they stand in the formula.
    """
    text = re.sub(r"_\\text\{(\w+)\}", r"_\1", formula)
    for name in _UPRIGHT:
        text = text.replace(rf"\text{{{name}}}", f" {name} ")
    text = re.sub(r"\\text\{[^{}]*\}|\\(?:begin|end)\{\w+\}", " ", text)
    for command, letter in _GREEK.items():
        text = text.replace(command, letter)
    text = re.sub(r"\\[A-Za-z]+", " ", text)
    text = re.sub(r"\be\^", " ", text)  # Euler's number
    text = re.sub(r"_\{(\w+)\}", r"_\1", text)
    found = re.findall(r"(?<![A-Za-zδ_])(?:KV|BW|[A-Za-zδ])(?:_[A-Za-z]+)?", text)
    return list(dict.fromkeys(name if name in MEANINGS else name.partition("_")[0] for name in found))


def legend(formula: str) -> str:
    """What the symbols of a formula stand for, in Markdown; empty where it has none.

    Args:
        formula: in LaTeX.
    """
    return " · ".join(f"${_latex(name)}$ {MEANINGS[name]}" for name in used(formula) if name in MEANINGS)


def _latex(name: str) -> str:
    letter, _, below = name.partition("_")
    letter = rf"\text{{{letter}}}" if letter in _UPRIGHT else letter.replace("δ", r"\delta")
    if not below:
        return letter
    return rf"{letter}_\text{{{below}}}" if len(below) > 1 else f"{letter}_{below}"
