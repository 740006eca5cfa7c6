"""`tallystick completion`: what a shell needs to complete commands and options.

Status 0 when it is shown, 2 for wrong options.
"""

import click
from click.shell_completion import get_completion_class

from tallystick.cli.commands import COMPLETING

SHELLS = ("bash", "fish", "zsh")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that has a shell complete commands and options.

    To be put into ~/.bashrc or ~/.zshrc as `eval "$(tallystick completion bash)"`, and for fish into
    ~/.config/fish/completions/tallystick.fish.
    """
    found = get_completion_class(shell)
    assert found is not None, "click knows all three"
    script = found(click.Group(), {}, "tallystick", COMPLETING)
    click.echo(script.source_template % script.source_vars())
