"""The chapter's eight reader exercises: what lab.cost answers, and what the runs kept here have measured of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lab.cost.catalog import model
from lab.cost.evidence import Exercise, Recomputation, exercises, solve
from lab.runs.point import Point
from lab.runs.readings import read_points
from lab.runs.readings.sides import kind_of
from lab.runs.run import Run

BY_ITSELF = "gpt2"  # whose heads the experiments measure unless told otherwise
KEPT: dict[int, Callable[[Point], bool]] = {
    3: lambda point: point.implementation == "naive",
    5: lambda point: point.implementation != "naive",
}
"""Which points of the experiment are about an exercise, where not all are: two exercises share one experiment."""


@dataclass(frozen=True)
class Answered:
    """One exercise with its answers.

    Args:
        number: as the chapter counts.
        asks: the question, in our words.
        steps: what is computed: a label, the value with its unit, and the formula in words.
        answer: in words, with the computed values.
        command: what measures it on this machine; None where arithmetic settles it.
        measured_on: the device and the run that has measured it; None where none has.
        measured: what that run says.
    """

    number: int
    asks: str
    steps: tuple[tuple[str, str, str], ...]
    answer: str
    command: str | None
    measured_on: str | None
    measured: tuple[str, ...]


def answered(kept: Iterable[Run] = ()) -> tuple[Answered, ...]:
    """Answer the exercises.

    Args:
        kept: runs, newest first, such as `lab.runs.list_runs()`.

    Returns:
        The exercises by number.
    """
    known = tuple(kept)
    return tuple(_answered(exercise, known) for exercise in exercises())


def _answered(exercise: Exercise, kept: tuple[Run, ...]) -> Answered:
    solved = solve(exercise)
    values = [value_text(found) for _, found in solved]
    run, said = _measured(exercise, kept)
    return Answered(
        number=exercise.number,
        asks=exercise.asks,
        steps=tuple(
            (label, value, found.formula) for (label, found), value in zip(solved, values, strict=True)
        ),
        answer=exercise.answer.format(*values),
        command=command(exercise),
        measured_on=None if run is None else f"{run.device_label}, run {run.run_id}",
        measured=said,
    )


def value_text(found: Recomputation) -> str:
    """Write a computed value with its unit.

    Args:
        found: of one step.
    """
    numbers = ", ".join(
        f"{round(value):,}" if value >= 1000 or value == round(value) else f"{value:.3g}"
        for value in found.value
    )
    return f"{numbers} {found.unit}".strip()


def command(exercise: Exercise) -> str | None:
    """Say what measures an exercise: its experiment, at the heads and lengths that its steps are about.

    Args:
        exercise: of lab.cost.evidence.

    Returns:
        A command line; None where arithmetic settles it.
    """
    if exercise.experiment is None:
        return None
    words = ["python -m lab", exercise.experiment]
    asked = {step["inputs"].get("model", BY_ITSELF) for step in exercise.steps} - {BY_ITSELF}
    for name in sorted(asked):
        shape = model(name)
        tokens = sorted({count for step in exercise.steps for count in _tokens(step["inputs"].get("tokens"))})
        words.append(
            f"--heads {shape.heads} --head-dim {shape.head_dim} --lengths {','.join(map(str, tokens))}"
        )
    return " ".join(words)


def _tokens(stated: int | list[int] | None) -> list[int]:
    if stated is None:
        return []
    return stated if isinstance(stated, list) else [stated]


def _measured(exercise: Exercise, kept: tuple[Run, ...]) -> tuple[Run | None, tuple[str, ...]]:
    """The newest run that says something of an exercise, and what it says."""
    if exercise.experiment is None:
        return None, ()
    wanted = KEPT.get(exercise.number, lambda _: True)
    for run in kept:
        points = [point for point in run.points if point.experiment == exercise.experiment and wanted(point)]
        said = read_points(exercise.experiment, points, kind_of(run))
        if said:
            return run, tuple(said)
    return None, ()
