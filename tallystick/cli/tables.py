"""Rows for people, and as JSON for programs."""

import json
from collections.abc import Sequence

import click

Cell = str | int | None


def show(columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, as_json: bool = False) -> None:
    """A table, in columns that a terminal does not break; or a JSON array of objects, whose names begin small."""
    if as_json:
        names = [name[0].lower() + name[1:] for name in columns]
        click.echo(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=2))
        return
    texts = [list(columns), *([("-" if cell is None else str(cell)) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in texts) for at in range(len(columns))]
    for row in texts:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
