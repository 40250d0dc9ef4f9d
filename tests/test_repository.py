"""The repository keeps its promises: fixed layout, README's commands, no file too long, import directions."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ALLOWED_TOP = {
    *("app.py", "pages", "lab", "tests", "requirements.txt", ".streamlit", "README.md", "pyproject.toml"),
    *("LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", ".ci", ".gitignore", "deploy"),
}
FOLDERS = ("lab", "pages", "tests")
PYTHON_FILES = [ROOT / "app.py", *sorted(path for name in FOLDERS for path in (ROOT / name).rglob("*.py"))]
LONGEST_FILE_LINES = 300
LONGEST_FUNCTION_LINES = 40


def tracked_files() -> list[str]:
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    return listing.stdout.splitlines()


def imported_modules(path: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
            modules.update(f"{node.module}.{alias.name}" for alias in node.names)
    return modules


def imports_any(path: Path, forbidden: set[str]) -> set[str]:
    return {name for name in imported_modules(path) for bad in forbidden if f"{name}.".startswith(f"{bad}.")}


def test_top_level_holds_only_what_the_layout_names() -> None:
    assert {name.split("/")[0] for name in tracked_files()} <= ALLOWED_TOP


def test_ci_runs_the_test_command_of_the_readme() -> None:
    command = re.compile(r"^python3 -m venv .*pytest$", re.MULTILINE)
    in_readme = command.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    in_ci = command.findall((ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert len(in_readme) == 1
    assert in_readme == in_ci


@pytest.mark.parametrize("path", PYTHON_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_stay_short(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.count("\n") <= LONGEST_FILE_LINES
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "tests" not in path.parts:
            first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
            body_lines = (node.end_lineno or 0) - first.lineno + 1
            assert body_lines <= LONGEST_FUNCTION_LINES, f"{node.name}: {body_lines} lines"


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [
        (
            "lab/cost",
            {"torch", "streamlit", "altair", "pandas", "transformers", "lab.measure", "lab.view", "lab.runs"},
        ),
        ("lab/runs", {"torch", "streamlit", "altair", "pandas", "transformers", "lab.measure", "lab.view"}),
        ("lab/measure", {"streamlit", "altair", "lab.view"}),
        ("lab/view", {"torch", "transformers"}),
        ("pages", {"torch", "transformers"}),
    ],
)
def test_imports_point_one_way(folder: str, forbidden: set[str]) -> None:
    files = [*(ROOT / folder).rglob("*.py"), *ROOT.glob(f"{folder}.py")]
    assert files
    assert {str(path): found for path in files if (found := imports_any(path, forbidden))} == {}


@pytest.mark.parametrize("module", ["lab", "lab.cost", "lab.runs", "lab.measure.jobs", "lab.__main__"])
def test_importing_it_leaves_torch_and_streamlit_out(module: str) -> None:
    program = (
        f"import sys, {module}; "
        "print([m for m in ('torch', 'streamlit', 'altair', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
