"""README's tables are what the app and the command line have: outcomes by page and question, every command."""

import re
from pathlib import Path

import pytest
import typer

from lab.cli.app import app
from lab.view.navigation import ENTRIES

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """The rows of the table under a heading, its head left out."""
    section = re.split(r"^## ", README.split(f"## {heading}\n")[1], flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_seven_outcomes_lie_on_pages_that_answer_their_question() -> None:
    outcomes = rows("What you will be able to do")
    assert len([row for row in outcomes if not row[0].startswith("…")]) == 7
    assert {(page, question) for _, page, question in outcomes} <= {
        (entry.title, entry.question) for entry in ENTRIES
    }


def test_every_command_is_named() -> None:
    commands = typer.main.get_command(app).commands
    told = set(re.findall(r"`([\w-]+)`", " ".join(row[1] for row in rows("The command line"))))
    assert set(commands) <= told


@pytest.mark.parametrize("line", re.findall(r"^\.venv/bin/python -m (lab [^#\n]*)", README, re.MULTILINE))
def test_a_shell_line_has_its_powershell_line(line: str) -> None:
    assert f".venv\\Scripts\\python -m {line.strip()}\n" in README
    assert line.split()[1] in typer.main.get_command(app).commands
