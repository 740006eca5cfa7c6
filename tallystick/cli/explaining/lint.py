"""`tallystick lint`: what clients of a broker do that costs them exactly-once, or speed.

Status 0 where they do nothing of it, 3 where some do, 1 with a sentence on stderr where nobody could be asked, 2 for
wrong options.
"""

import json
import sys

import click

from tallystick.cli.connecting import say_and_end
from tallystick.cli.explaining.status import STANDS_STILL
from tallystick.cli.tables import say
from tallystick.journals.asking import NEEDED, NotTold, asking, told
from tallystick.journals.sentences import lint_lines


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@asking
def lint(as_json: bool, http_url: str | None, http_token_file: str | None) -> None:
    """What clients had better do otherwise, who they are, and what to change. Status 3 where there is something."""
    if http_url is None:
        say_and_end(f"lint {NEEDED}")
    try:
        said = told(http_url, "/v1/lint", http_token_file)
    except NotTold as problem:
        say_and_end(str(problem))
    if as_json:
        click.echo(json.dumps(said, indent=2))
    else:
        for line in lint_lines(said):
            say(line)
    sys.exit(STANDS_STILL if said["findings"] else 0)
