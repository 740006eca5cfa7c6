"""cli: the `tallystick` command."""

from tallystick.cli.commands import main

__all__ = ["main"]
