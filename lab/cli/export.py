"""A run as a table for other programs: CSV, Parquet or Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.exits import REFUSED, fail, usage_errors
from lab.cli.runs import find
from lab.runs import Run
from lab.runs.rows import rows, to_csv, to_markdown

NO_PYARROW = "writing Parquet needs the pyarrow package, which is not installed; --csv needs nothing"


def export(
    run: Annotated[str, typer.Argument(help="A run's identifier, or a run file.")],
    csv: Annotated[bool, typer.Option("--csv", help="Comma-separated values, raw samples included.")] = False,
    parquet: Annotated[bool, typer.Option("--parquet", help="An Apache Parquet file.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="A table to paste into a page.")] = False,
    output: Annotated[
        Path | None, typer.Option(help="The file to write; standard output if unset (not for Parquet).")
    ] = None,
) -> None:
    """Write the points of a run as a table, one row a point."""
    with usage_errors():
        if csv + parquet + markdown != 1:
            raise ValueError("one of --csv, --parquet and --markdown must be given")
        if parquet and output is None:
            raise ValueError("--output must name a file when --parquet is given, since Parquet is no text")
        found = find(run)
    if output is None:
        typer.echo(to_csv(found) if csv else to_markdown(found), nl=False)
        return
    try:
        if parquet:
            write_parquet(found, output)
        else:
            output.write_text(to_csv(found) if csv else to_markdown(found), encoding="utf-8")
    except OSError as error:
        fail(f"{output} could not be written: {error.strerror or error}")
    typer.echo(f"{len(found.points)} points written to {output}")


def write_parquet(run: Run, path: Path) -> None:
    """Write a run as Parquet: types kept, raw samples as lists.

    Args:
        run: any run.
        path: the file.

    Raises:
        OSError: it cannot be written.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        fail(NO_PYARROW, REFUSED)
    parquet.write_table(pyarrow.Table.from_pylist(rows(run)), path)
