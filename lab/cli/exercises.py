"""The chapter's reader exercises with their answers: computed, and measured where a run of this machine has."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from lab.cli.exits import fail
from lab.runs import list_runs
from lab.runs.exercises import Answered, answered


def exercises(
    number: Annotated[int | None, typer.Argument(help="One of them; all if left out.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """Answer the chapter's reader exercises: question, formula or experiment, computed and measured answer."""
    found = answered(list_runs())
    if number is not None:
        numbers = [each.number for each in found]
        if number not in numbers:
            fail(f"number must be {numbers[0]} to {numbers[-1]}, got {number}")
        found = tuple(each for each in found if each.number == number)
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found], ensure_ascii=False))
        return
    for each in found:
        for line in lines(each):
            typer.echo(line)
        typer.echo()


def lines(exercise: Answered) -> list[str]:
    """Write an exercise for people.

    Args:
        exercise: with its answers.
    """
    said = [f"{exercise.number}. {exercise.asks}"]
    for label, value, formula in exercise.steps:
        said += [f"   {label}: {value}", f"      {formula}"]
    said.append(f"   Answer: {exercise.answer}")
    if exercise.command is not None:
        said.append(f"   Measure it: {exercise.command}")
        if exercise.measured_on is None:
            said.append("   Nothing kept on this machine has measured it yet.")
        else:
            said.append(f"   Measured on {exercise.measured_on}:")
            said += [f"   · {sentence}" for sentence in exercise.measured]
    return said
