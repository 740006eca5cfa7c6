"""`tallystick serve` as a shell completes it: the server knows its own flags, and is asked for them.

It runs in a process of its own, so nothing of it is imported here.
"""

import re
import subprocess
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem

from tallystick.startup_guard import server_command, server_environment

PATIENCE_S = 10.0
_FLAG = re.compile(r"^  (?:-\w, )?(--[a-z-]+)(.*(?:\n {10,}.*)?)$", re.MULTILINE)
_CHOICES = re.compile(r"^ \{([\w,-]+)\}")
Flags = dict[str, tuple[str, Sequence[str]]]
"""What each is for, and what it may be where that is a list."""


class Serve(click.Command):
    """The command, which is handed on untouched: its flags are the server's."""

    def __init__(self, command: click.Command) -> None:
        rest = click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED, shell_complete=_values)
        super().__init__(command.name, command.context_settings, command.callback, [rest], command.help)
        self.add_help_option = command.add_help_option

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [
            CompletionItem(name, help=meaning) for name, (meaning, _) in _flags().items() if name.startswith(incomplete)
        ]


def _values(context: click.Context, argument: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Of the flag before it: what it may be, or else a path."""
    given = context.params.get("arguments") or ("",)
    choices = _flags().get(given[-1], ("", ()))[1]
    if choices:
        return [CompletionItem(one) for one in choices if one.startswith(incomplete)]
    return [CompletionItem(incomplete, type="file")]


def _flags() -> Flags:
    """None where the server cannot be asked: whoever completes is told nothing then."""
    command, wide = server_command(["--help"]), {**server_environment(), "COLUMNS": "1000"}
    try:
        done = subprocess.run(command, env=wide, capture_output=True, text=True, timeout=PATIENCE_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found: Flags = {}
    for name, rest in _FLAG.findall(done.stdout):
        choices, meaning = _CHOICES.match(rest), re.split(r"\s{2,}", rest, maxsplit=1)
        found[name] = (meaning[-1] if len(meaning) > 1 else "", choices[1].split(",") if choices else ())
    return found
