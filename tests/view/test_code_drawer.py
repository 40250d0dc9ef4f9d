"""The code shown on a page is the code that ran, and the page reaches it."""

import ast
import importlib
import inspect
from functools import cache
from pathlib import Path

import pytest

from lab.view import code_drawer
from tests.view.pages import FILES, ROOT

EVERY = sorted({one for sides in code_drawer.SHOWN.values() for both in sides.values() for one in both})


@cache
def imported(path: Path) -> frozenset[Path]:
    """Files of lab that a file imports, however indirectly."""
    found: set[Path] = set()
    waiting = [path]
    while waiting:
        for node in ast.walk(ast.parse(waiting.pop().read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lab"):
                names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
                files = {ROOT.joinpath(*name.split(".")).with_suffix(".py") for name in names}
                files |= {ROOT.joinpath(*name.split("."), "__init__.py") for name in names}
                new = {file for file in files if file.exists()} - found
                found |= new
                waiting += new
    return frozenset(found)


def test_every_page_shows_both_sides() -> None:
    assert tuple(code_drawer.SHOWN) == FILES
    for sides in code_drawer.SHOWN.values():
        assert set(sides) == {code_drawer.PREDICTED, code_drawer.MEASURED}
        assert all(sides.values())


@pytest.mark.parametrize("reference", [one for one in EVERY if one.startswith("cost.")])
def test_the_code_shown_is_the_code_that_runs(reference: str) -> None:
    module, _, name = reference.partition(":")
    ran = inspect.getsource(getattr(importlib.import_module(f"lab.{module}"), name))
    assert code_drawer.source(reference).code == ran.rstrip("\n")


@pytest.mark.parametrize("reference", EVERY)
def test_code_is_found_at_the_line_given(reference: str) -> None:
    found = code_drawer.source(reference)
    lines = (ROOT / found.path).read_text(encoding="utf-8").splitlines()
    assert lines[found.line - 1] == found.code.splitlines()[0]
    assert ast.parse(found.code).body[0].name == reference.partition(":")[2]


@pytest.mark.parametrize("file", FILES)
def test_a_page_reaches_the_cost_functions_it_shows(file: str) -> None:
    reached = imported(ROOT / "pages" / f"{file}.py")
    for reference in code_drawer.SHOWN[file][code_drawer.PREDICTED]:
        assert ROOT / code_drawer.source(reference).path in reached, reference


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match="must name a function of lab/cost/formulas"):
        code_drawer.source("cost.formulas:nope")
