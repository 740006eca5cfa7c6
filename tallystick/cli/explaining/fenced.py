"""`tallystick explain fenced`: who raised the epoch of a transactional id, and who was turned away for it."""

import json
import sys

import click

from tallystick.cli.connecting import say_and_end
from tallystick.cli.explaining.status import STANDS_STILL
from tallystick.cli.tables import say
from tallystick.journals.asking import NEEDED, NotTold, asking, of_id, told
from tallystick.journals.sentences import fence_lines


@click.command()
@click.argument("transactional_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@asking
def fenced(transactional_id: str, as_json: bool, http_url: str | None, http_token_file: str | None) -> None:
    """Who raised the epoch of a transactional id, by which request, and which producers were fenced by that.

    Asks the broker's journal, which begins with the broker's start. Status 3 where somebody was turned away."""
    if http_url is None:
        say_and_end(f"explain fenced {NEEDED}")
    try:
        said = told(http_url, of_id(transactional_id, "fences"), http_token_file)
    except NotTold as problem:
        say_and_end(str(problem))
    if as_json:
        click.echo(json.dumps(said, indent=2))
    else:
        for line in fence_lines(said):
            say(line)
    sys.exit(STANDS_STILL if said["refused"] else 0)
