"""The commands. `serve` is handed on untouched to the server process, which knows its own flags; so click and whatever
else serves people never loads there."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click


def main() -> None:
    """The console script."""
    if sys.argv[1:2] == ["serve"]:
        from tallystick.startup_guard import become_server

        become_server(sys.argv[2:])
    _group()()


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

    @tallystick.command(context_settings={"ignore_unknown_options": True}, add_help_option=False)
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def spark(arguments: tuple[str, ...]) -> None:
        """Look after exactly-once sinks of Spark (`tallystick spark --help` lists what there is)."""
        from tallystick.cli.spark import spark as commands

        commands(list(arguments), prog_name="tallystick spark")

    @tallystick.command(context_settings={"ignore_unknown_options": True}, add_help_option=False)
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def certs(arguments: tuple[str, ...]) -> None:
        """Make certificates for a first try (`tallystick certs --help` lists what there is)."""
        from tallystick.cli.certs import certs as commands

        commands(list(arguments), prog_name="tallystick certs")

    @tallystick.command()
    def version() -> None:
        """Print the version."""
        click.echo(f"tallystick {__version__}")

    return tallystick
