"""The commands that test the instrument: what they print, and their exit codes. The real ones are slow."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lab.cli import trust
from lab.cli.app import app
from lab.cli.exits import MISSED, OK, REFUSED, USAGE
from lab.runs import JobSpec
from lab.runs.clocks import TORCH_TIMER, TwoClocks
from tests.runs.test_trials import Trial, noisy, trials


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def events(found: list[Trial]) -> list[dict]:
    return [{"first": trial.first.to_dict(), "second": trial.second.to_dict()} for trial in found]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[list[dict]]:
    """What the measuring child is to answer, call by call; the specifications it got come behind."""
    given: list = []

    def answer(spec: JobSpec, *arguments: object, **more: object) -> list[dict]:
        given.append(spec)
        return given.pop(0)

    monkeypatch.setattr(trust, "observed", answer)
    return given


@pytest.mark.parametrize(
    ("found", "code", "words"),
    [
        (trials(60, 0.004), OK, "met: nine of ten within"),
        (trials(60, 0.05), MISSED, "MISSED: nine of ten within"),
        ([noisy(trial) for trial in trials(60, 0.004)], REFUSED, "not judged: all 60 trials"),
    ],
)
def test_null_says_what_the_clock_makes_up(answers: list, found: list[Trial], code: int, words: str) -> None:
    answers.append(events(found))
    result = call("null")
    assert result.exit_code == code, result.output
    assert words in result.output
    assert answers[-1].repeats * 6 == 60


@pytest.mark.parametrize(("scale", "code"), [(1.0, OK), (1.3, MISSED)])
def test_null_beside_competitors_finds_times_that_are_silently_off(answers, scale: float, code: int) -> None:
    answers.append(events(trials(60, 0.004)))
    for factor in (1.0, scale):
        quiet, beside = events(trials(4, 0.004)), events(trials(4, 0.004, scale=factor))
        told = [(quiet[:2], False), (beside, True), (quiet[2:], False)]
        answers.append([trial | {"disturbed": which} for found, which in told for trial in found])
    result = call("null", "--disturb", "--json")
    assert result.exit_code == code, result.output
    found = json.loads(result.stdout)
    assert found["verdict"].startswith("met")
    assert len(found["disturbed"]["steady"]["silent"]) == 0
    assert len(found["disturbed"]["in bursts"]["silent"]) == (4 if code else 0)


@pytest.mark.parametrize(
    ("ratio", "clean", "code"), [(1.01, True, OK), (1.2, True, MISSED), (1.01, False, REFUSED)]
)
def test_cross_check_judges_two_clocks(answers: list, ratio: float, clean: bool, code: int) -> None:
    pairs = [TwoClocks(name, 256, TORCH_TIMER, ratio, 1.0, clean) for name in ("naive", "math", "flash")]
    answers.append([{"clocks": pair.to_dict()} for pair in pairs])
    result = call("cross-check")
    assert result.exit_code == code, result.output
    assert result.output.count(f"{ratio:.3f}") == 3
    assert "torch.utils.benchmark" in result.output


@pytest.mark.parametrize(
    "arguments", [("null", "--lengths", "abc"), ("cross-check", "--implementations", "magic")]
)
def test_a_mistake_is_one_sentence(arguments: tuple[str, ...]) -> None:
    result = call(*arguments)
    assert result.exit_code == USAGE
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_device_that_is_not_here_is_refused_by_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "PATIENCE_S", 0.0)
    small = ("--lengths", "8", "--implementations", "naive", "--trials", "6", "--threads", "1")
    result = call("null", "--device", "cuda:99", *small)
    assert result.exit_code == REFUSED
    assert "cuda:99" in result.stderr


@pytest.mark.slow
def test_the_real_cross_check_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "PATIENCE_S", 0.0)
    result = call("cross-check", "--passes", "1", "--lengths", "16", "--implementations", "naive", "--json")
    (found,) = json.loads(result.stdout)
    assert found["tool"] == TORCH_TIMER
    assert found["ours_s"] > 0
