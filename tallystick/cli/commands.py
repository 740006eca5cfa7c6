"""The commands. `serve` is handed on untouched to the server process, which knows its own flags; so click and whatever
else serves people never loads there.

A command's module is imported when the command is used. Who needs all of them (a shell that completes, the manual) asks
for `whole`.
"""

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click

COMPLETING = "_TALLYSTICK_COMPLETE"
"""Set where a shell asks what could come next (`tallystick completion`)."""


def main() -> None:
    """The console script."""
    if sys.argv[1:2] == ["serve"]:
        from tallystick.startup_guard import become_server

        become_server(sys.argv[2:])
    (whole() if COMPLETING in os.environ else _group())(prog_name="tallystick")


GROUPS = {
    "acls": ("tallystick.cli.acls", "Look after ACLs, in the words of kafka-acls"),
    "audit": ("tallystick.cli.audit", "Read everything and say whether the cluster keeps its promises"),
    "backup": ("tallystick.cli.files.backup", "Copy a broker's data folder while it serves"),
    "bench": ("tallystick.cli.records.bench", "Measure what one client sees of a cluster"),
    "certs": ("tallystick.cli.certs", "Make certificates for a first try"),
    "completion": ("tallystick.cli.completion", "Print what a shell needs to complete commands and options"),
    "configs": ("tallystick.cli.configs", "Look after configs, in the words of kafka-configs"),
    "console": ("tallystick.cli.console", "Serve a page about a cluster"),
    "consume": ("tallystick.cli.records.consume", "Show records of topics"),
    "copy": ("tallystick.cli.records.copy", "Copy a topic into another, exactly once"),
    "dump": ("tallystick.cli.files.offline", "Show files of a data folder, as kafka-dump-log does"),
    "explain": ("tallystick.cli.explain", "Say why something stands still, and how it ends"),
    "groups": ("tallystick.cli.groups", "Look after groups and offsets, in the words of kafka-consumer-groups"),
    "lint": ("tallystick.cli.explaining.lint", "Say what clients had better do otherwise"),
    "produce": ("tallystick.cli.records.produce", "Write lines of standard input into a topic"),
    "restore": ("tallystick.cli.files.backup", "Make a data folder of a backup"),
    "spark": ("tallystick.cli.spark", "Look after exactly-once sinks of Spark"),
    "tail": ("tallystick.cli.records.consume", "Show records of topics as they come"),
    "topics": ("tallystick.cli.topics", "Look after topics, in the words of kafka-topics"),
    "transactions": ("tallystick.cli.transactions", "Look after transactions, in the words of kafka-transactions"),
    "users": ("tallystick.cli.users", "Look after users of SCRAM, in the words of kafka-configs"),
    "verify": ("tallystick.cli.files.offline", "Check a data folder that no broker uses, byte by byte"),
}
"""Commands with options of their own, by name: the module, where they have the same name, and what they are for."""


def whole() -> "click.Group":
    """All commands, each with everything below it."""
    import click

    from tallystick.cli.serving import Serve

    found = _group()
    found.add_command(Serve(found.commands["serve"]))
    for name, module in [
        ("demo", "tallystick.demo.command"),
        *((name, module) for name, (module, _) in GROUPS.items()),
    ]:
        try:
            command: click.Command = getattr(import_module(module), name)
        except ModuleNotFoundError:  # of an extra that is not installed: it says so when it is used
            continue
        found.add_command(command, name)
    return found


def _handed_on(name: str, module: str, text: str) -> "click.Command":
    """A command that is imported when it is used."""
    import click

    def run(arguments: tuple[str, ...]) -> None:
        command: click.Command = getattr(import_module(module), name)
        command(list(arguments), prog_name=f"tallystick {name}")

    rest = click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)
    settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}  # whose `--` is the command's
    return click.Command(name, settings, run, [rest], help=text, add_help_option=False)


def _group() -> "click.Group":
    """Build the command group; click is imported only where people look at it."""
    import click

    from tallystick import __version__
    from tallystick.startup_guard import core

    said = f"tallystick {__version__} ({core()} core)"

    @click.group()
    @click.version_option(__version__, prog_name="tallystick", message=said)
    def tallystick() -> None:
        """A standalone broker that speaks the Kafka protocol, exact on exactly-once."""

    @tallystick.command(context_settings={"ignore_unknown_options": True}, add_help_option=False)
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def serve(arguments: tuple[str, ...]) -> None:
        """Run a broker (`tallystick serve --help` lists its flags)."""
        from tallystick.startup_guard import become_server

        become_server(arguments)

    @tallystick.command(context_settings={"ignore_unknown_options": True}, add_help_option=False)
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def demo(arguments: tuple[str, ...]) -> None:
        """Run an exactly-once pipeline through kills, with a verdict (`tallystick demo --help` lists its options)."""
        from tallystick.demo.__main__ import main as run_demo

        run_demo(arguments)

    for name, (module, text) in GROUPS.items():
        tallystick.add_command(_handed_on(name, module, f"{text}."))

    @tallystick.command()
    def version() -> None:
        """Print the version."""
        click.echo(said)

    return tallystick
