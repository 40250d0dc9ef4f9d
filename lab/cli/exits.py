"""Exit codes, and how a mistake of the caller is reported: one sentence, no traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

OK, USAGE, REFUSED, OUT_OF_MEMORY, CRASHED, CANCELLED = 0, 2, 3, 4, 5, 130

BY_STATUS = {
    "finished": OK,
    "refused": REFUSED,
    "out_of_memory": OUT_OF_MEMORY,
    "crashed": CRASHED,
    "cancelled": CANCELLED,
}

EXIT_CODES_HELP = (
    f"Exit codes: {OK} done, {USAGE} not understood, {REFUSED} refused, {OUT_OF_MEMORY} out of memory, "
    f"{CRASHED} crashed, {CANCELLED} cancelled."
)


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
