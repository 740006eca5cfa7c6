"""Every command with its arguments, options and statuses, read off the commands: click's own, and the server's parser.

What a command ends with stands at the head of its module, or of the one of the group that it is in, in the paragraph
that begins with `Status`.
"""

import argparse
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

import click

from broker.__main__ import parser as server_parser
from tallystick.cli.commands import whole

GENERAL_STATUS = "0 when it is done, 1 with a sentence on stderr when it is not, 2 for wrong options."


@dataclass(frozen=True, slots=True)
class Option:
    """One, or an argument."""

    names: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Command:
    """One command; a group has others below it."""

    path: str
    usage: str
    text: str
    arguments: tuple[Option, ...]
    options: tuple[Option, ...]
    below: tuple[str, ...]
    status: str


def commands() -> list[Command]:
    """All that people type, `tallystick` first, in alphabetical order."""
    return list(_walk(whole(), "tallystick", GENERAL_STATUS))


def _walk(command: click.Command, path: str, status: str) -> Iterator[Command]:
    if path == "tallystick serve":
        yield _server(path)
        return
    status = _status(command) or status
    below = sorted(command.commands.items()) if isinstance(command, click.Group) else []
    below = [(name, one) for name, one in below if not one.hidden]
    context = click.Context(command, info_name=path)
    options = [one for one in command.get_params(context) if isinstance(one, click.Option) and not one.hidden]
    yield Command(
        path=path,
        usage=" ".join([path, *command.collect_usage_pieces(context)]),
        text=_text(command.help or ""),
        arguments=tuple(_argument(one, context) for one in command.params if isinstance(one, click.Argument)),
        options=tuple(_option(one, context) for one in options),
        below=tuple(f"{path} {name}" for name, _ in below),
        status=status,
    )
    for name, one in below:
        yield from _walk(one, f"{path} {name}", status)


def _text(written: str) -> str:
    """Paragraphs, each on a line."""
    paragraphs = inspect.cleandoc(written).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _argument(one: click.Argument, context: click.Context) -> Option:
    return Option(one.make_metavar(context), "" if one.required else "may be left out")


def _option(one: click.Option, context: click.Context) -> Option:
    record = one.get_help_record(context)
    assert record is not None, "hidden ones are left out"
    names, meaning = record
    return Option(names, " ".join(meaning.split()) or "-")


def _status(command: click.Command) -> str:
    callback = command.callback
    module: ModuleType | None = None if callback is None else sys.modules.get(inspect.unwrap(callback).__module__)
    written = "" if module is None else module.__doc__ or ""
    found = re.search(r"\bStatus (\d.*?)(?:\n\n|$)", written, re.DOTALL)
    return "" if found is None else " ".join(found[1].split())


def _server(path: str) -> Command:
    parser = server_parser()
    options = []
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue
        shown = "|".join(map(str, action.choices or ())) or action.metavar or action.dest.upper()
        value = "" if action.nargs == 0 else f" {shown}"
        options.append(Option(", ".join(action.option_strings) + value, action.help or "-"))
    usage = f"{path} [OPTIONS]"
    status = (inspect.getmodule(server_parser).__doc__ or "").partition("Exit status:")[2]
    return Command(path, usage, parser.description or "", (), tuple(options), (), " ".join(status.split()))
