"""Exit codes, and how a mistake of the caller is reported: one sentence, no traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from lab.runs import Run

OK, MISSED, USAGE, REFUSED, OUT_OF_MEMORY, CRASHED, WRONG, CANCELLED = 0, 1, 2, 3, 4, 5, 6, 130

BY_STATUS = {
    "finished": OK,
    "refused": REFUSED,
    "out_of_memory": OUT_OF_MEMORY,
    "crashed": CRASHED,
    "cancelled": CANCELLED,
}

EXIT_CODES_HELP = (
    f"Exit codes: {OK} done, {MISSED} a stated limit was missed (validate, null, cross-check) or the output's reader "
    f"left, {USAGE} not understood, "
    f"{REFUSED} refused, {OUT_OF_MEMORY} out of memory, {CRASHED} crashed, {WRONG} a wrong result was found, "
    f"{CANCELLED} cancelled. Refused and out of memory: nothing at all could be measured."
)


def exit_code(run: Run) -> int:
    """Return the exit code of a run: how it ended, or what became of its points.

    Args:
        run: as it ended.
    """
    if run.status != "finished":
        return BY_STATUS.get(run.status, CRASHED)
    seen = {point.status for point in run.points}
    if "wrong" in seen:
        return WRONG
    if not seen or seen & {"ok", "noisy"}:
        return OK
    return OUT_OF_MEMORY if "out_of_memory" in seen else REFUSED


def fail(sentence: str, code: int = USAGE) -> NoReturn:
    """Write one sentence to stderr and exit."""
    typer.echo(f"Error: {sentence}", err=True)
    raise typer.Exit(code)


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a ValueError (all of the lab's refusals of input) into a usage error of one sentence."""
    try:
        yield
    except ValueError as error:
        fail(str(error))
