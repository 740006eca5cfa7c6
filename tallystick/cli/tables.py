"""Rows and sentences for people, and JSON for programs.

Clients choose their ids and those of groups and transactions: none of them may write to a terminal what it obeys, or a
line that looks like one of ours.
"""

import json
from collections.abc import Sequence

import click

from tallystick.written import printable

__all__ = ["Cell", "printable", "say", "show"]
Cell = str | int | None


def show(columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, as_json: bool = False) -> None:
    """A table, in columns that a terminal does not break; or a JSON array of objects, whose names begin small."""
    if as_json:
        names = [name[0].lower() + name[1:] for name in columns]
        click.echo(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=2))
        return
    texts = [list(columns), *([("-" if cell is None else printable(str(cell))) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in texts) for at in range(len(columns))]
    for row in texts:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def say(sentence: str, *, err: bool = False) -> None:
    """One line."""
    click.echo(printable(sentence), err=err)
