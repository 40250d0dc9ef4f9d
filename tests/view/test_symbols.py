"""One meaning for a symbol on every page: each formula uses symbols of the table alone."""

import ast

import pytest

from lab.view import glossary, symbols
from tests.view.pages import FILES, ROOT


def formula_of(file: str) -> str:
    """The symbolic formula of a page, with both sides of whatever it depends on."""
    tree = ast.parse((ROOT / "pages" / f"{file}.py").read_text(encoding="utf-8"))
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    (first,) = [
        call.args[0] for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "formula"
    ]
    texts = (node.value for node in ast.walk(first) if isinstance(node, ast.Constant))
    return " ".join(text for text in texts if isinstance(text, str))


@pytest.mark.parametrize("file", FILES)
def test_every_symbol_of_a_pages_formula_is_in_the_table(file: str) -> None:
    assert set(symbols.used(formula_of(file))) <= set(symbols.MEANINGS)


def test_every_symbol_of_the_glossary_is_in_the_table() -> None:
    for term in glossary.terms():
        unknown = set(symbols.used(term.formula)) - set(symbols.MEANINGS)
        assert not unknown, term.term


def test_a_symbol_has_one_meaning_and_a_meaning_one_symbol() -> None:
    assert len(set(symbols.MEANINGS.values())) == len(symbols.MEANINGS)


def test_symbols_are_read_out_of_latex() -> None:
    assert symbols.used(r"S = B\,h\,T^2\,b \qquad \text{peak}_\text{naive} = 2\,S") == list("SBhTb")
    assert symbols.used(r"t_\text{step} \ge \frac{W_\text{read} + n\,\text{KV}(T)}{\text{BW}}") == [
        *("t", "W_read", "n", "KV", "T", "BW")
    ]
    assert symbols.legend(r"d_k + \text{words}") == "$d_k$ width of a head's queries and keys"
