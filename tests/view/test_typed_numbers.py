"""No number is typed into what the reader reads: pages, their pieces and the texts of the data are scanned.

A figure that the lab could compute would be wrong the day that a formula, a shape or a card changes. Numbers of
the sources themselves are data and stay in fields of their own.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted([ROOT / "app.py", *(ROOT / "pages").glob("*.py"), *(ROOT / "lab" / "view").glob("*.py")])

NAMES = (
    r"GPT-2|LLaMA-2(?:-7B)?|Llama-3-8B|LLaMA-3-8B|Mistral-7B|FlashAttention-2|H100|RTX 2060 12GB",
    r"\b(?:bf|fp|float|int)\d+\b|\bq\d_\d\b",
    r"logits_to_keep=1",
)
"""What bears a number in its name, and is none."""
LAWS = (
    r"T ×2 → (?:time|bytes) ×4",  # the words of a slope triangle, drawn with that slope
    r"\b[NT]²",
    r"T\(T ?\+ ?1\)(?:/2)?|\(T ?\+ ?1\)/2T|1 \+ 2 \+ … \+ T",  # pairs, in symbols
    r"\b1k is 1,024\b|2³⁰|10⁹|2\^\{30\}|10\^\{9\}",  # what a unit means
    r"T_q = 1,",  # what a decode step is
    r"a multiply-add is 2\b",  # the convention of every FLOP count
    r"× 1: unchanged|below 1 means",  # what no change is
    r"\b[01] (?:point|sequence|s)\b|^1 …",  # a count written out in the singular, and zero
    r"the 1 point",
)
"""Conventions and laws, which no model, card or run can change."""
NOT_PROSE = (
    r"<style>.*</style>",
    r"\\[1-9]",  # a place in a regular expression
    r"style=\"[^\"]*\"",
    r"count must be from 1 to ",  # the message of a wrong call, which no reader can make
)
ALLOWED = re.compile("|".join((*NAMES, *LAWS, *NOT_PROSE)), re.DOTALL)
PLACES = re.compile(r"\{[^}]*\}")  # of figures that are put in
DIGIT = re.compile(r"[0-9²³⁰¹⁴-⁹½¼¾]")
LATEX = re.compile(r"\\[A-Za-z,!; ]")
PUT_IN = "…"
# In a formula a small whole number is a coefficient or an exponent: 2 B h T², T(T+1)/2.
COEFFICIENT = re.compile(r"(?<![\d.,])[1248](?![\d.,%])|_[1-9]\b|\^\{?[1-9-]")
A_SENTENCE = re.compile(r"\s|[×%·]")
DATA_TEXTS = {
    "claims/chapter": ("why",),
    "claims/overview": ("why",),
    "claims/exercises": ("answer",),
    "glossary": ("says", "unit", "formula"),
    "references": ("used_for",),
}


def typed(text: str) -> str | None:
    """A text of the reader in which a number was typed; None where there is none but names and laws."""
    left = ALLOWED.sub("", text)
    if LATEX.search(text) or "^" in text:
        left = COEFFICIENT.sub("", left)
    return text if DIGIT.search(left) else None


def not_by_themselves(tree: ast.Module) -> Iterator[ast.expr]:
    """Strings that nobody reads, such as docstrings, and the parts of f-strings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield from node.values
        elif isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            yield node.format_spec


def text_of(node: ast.AST) -> str:
    """A string, with a mark in the places of an f-string; nothing for any other node."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or PUT_IN for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Every sentence and formula of a program, with its line."""
    tree = ast.parse(source)
    hidden = {id(node) for node in not_by_themselves(tree)}
    for node in ast.walk(tree):
        text = "" if id(node) in hidden else text_of(node)
        if A_SENTENCE.search(text) or LATEX.search(text):
            yield node.lineno, text


def found_in(source: str) -> list[str]:
    return [f"line {line}: {text}" for line, text in texts(source) if typed(text)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_and_their_pieces_type_no_number(path: Path) -> None:
    assert found_in(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("name", DATA_TEXTS)
def test_texts_of_the_data_type_no_number(name: str) -> None:
    entries = json.loads((ROOT / "lab" / "data" / f"{name}.json").read_text(encoding="utf-8"))
    read = [str(entry.get(field) or "") for entry in entries for field in DATA_TEXTS[name]]
    assert any(read)
    # A formula's braces are no places.
    assert [text for text in read if typed(text if LATEX.search(text) else PLACES.sub("", text))] == []


@pytest.mark.parametrize(
    "planted",
    [
        'st.markdown("It needs 24 MiB here.")',
        'st.markdown(f"{name} needs 24 MiB here.")',
        'say(f"At T = 4096 {name} is faster")',
        'say("naive is 11 times slower")',
        'say("about 55 % of the time")',
        'say("a cache of 4.29\u202fGB")',
        'say("half of the 1k tokens")',
        'latex(r"S = 12 \\\\cdot T^2")',
        'latex(r"\\\\text{peak} = 2.05\\\\,S")',
        'latex(r"\\text{peak: 12 GiB}")',
        'say("GPT-2 has 12 heads")',
        'say("an H100 has 80 GB")',
        'say("1k is 1,024 tokens and 2k is 2,048")',
    ],
)
def test_a_planted_number_is_found(planted: str) -> None:
    assert len(found_in(planted)) == 1


@pytest.mark.parametrize("planted", ["The factor of 32 heads is missing.", "{0:.1f} ms over 5.97 ms", "6.6."])
def test_a_number_planted_in_the_data_is_found(planted: str) -> None:
    assert typed(PLACES.sub("", planted))
