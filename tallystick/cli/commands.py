"""The commands. `serve` is handed on untouched to the server process, which knows its own flags; so click and whatever
else serves people never loads there."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click


def main() -> None:
    """The console script."""
    if sys.argv[1:2] == ["serve"]:
        from tallystick.startup_guard import become_server

        become_server(sys.argv[2:])
    _group()()


GROUPS = {
    "audit": ("tallystick.cli.audit", "Read everything and say whether the cluster keeps its promises"),
    "certs": ("tallystick.cli.certs", "Make certificates for a first try"),
    "consume": ("tallystick.cli.records.consume", "Show records of topics"),
    "configs": ("tallystick.cli.configs", "Look after configs, in the words of kafka-configs"),
    "console": ("tallystick.cli.console", "Serve a page about a cluster"),
    "copy": ("tallystick.cli.records.copy", "Copy a topic into another, exactly once"),
    "dump": ("tallystick.cli.offline", "Show files of a data folder, as kafka-dump-log does"),
    "explain": ("tallystick.cli.explain", "Say why something stands still, and how it ends"),
    "groups": ("tallystick.cli.groups", "Look after groups and offsets, in the words of kafka-consumer-groups"),
    "lint": ("tallystick.cli.explaining.lint", "Say what clients had better do otherwise"),
    "produce": ("tallystick.cli.records.produce", "Write lines of standard input into a topic"),
    "spark": ("tallystick.cli.spark", "Look after exactly-once sinks of Spark"),
    "tail": ("tallystick.cli.records.consume", "Show records of topics as they come"),
    "topics": ("tallystick.cli.topics", "Look after topics, in the words of kafka-topics"),
    "transactions": ("tallystick.cli.transactions", "Look after transactions, in the words of kafka-transactions"),
    "verify": ("tallystick.cli.offline", "Check a data folder that no broker uses, byte by byte"),
    "users": ("tallystick.cli.users", "Look after users of SCRAM, in the words of kafka-configs"),
}
"""Commands with options of their own, by name: the module, where they have the same name, and what they are for."""


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

    @click.group()
    @click.version_option(__version__, prog_name="tallystick")
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

    @tallystick.command(context_settings={"ignore_unknown_options": True}, add_help_option=False)
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def acls(arguments: tuple[str, ...]) -> None:
        """Look after ACLs, in the words of kafka-acls (`tallystick acls --help` lists its options)."""
        from tallystick.cli.acls import acls as command

        command(list(arguments), prog_name="tallystick acls")

    @tallystick.command()
    def version() -> None:
        """Print the version."""
        click.echo(f"tallystick {__version__}")

    return tallystick
