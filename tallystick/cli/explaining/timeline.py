"""`tallystick transactions timeline`: what happened to a transactional id, as the broker's journal has it."""

import json
from datetime import UTC, datetime

import click
from rich.console import Console
from rich.text import Text

from tallystick.cli.connecting import say_and_end
from tallystick.journals.asking import NEEDED, NotTold, asking, of_id, told
from tallystick.journals.scenario import CannotBeTold, scenario_of
from tallystick.journals.sentences import timeline_lines
from tallystick.written import printable

STYLES = {"head": "dim", "state": "bold", "records": "", "markers": "cyan", "request": "green", "error": "red"}


def _at(context: click.Context, option: click.Parameter, given: str | None) -> int | None:
    """Milliseconds, or ISO 8601; without a zone it is UTC."""
    if given is None:
        return None
    if given.isascii() and given.isdigit():
        return int(given)
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise click.BadParameter(f"{given!r} is no time: 2026-01-31T12:00:00, or milliseconds since 1970") from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


@click.command()
@click.argument("transactional_id", metavar="ID")
@click.option("--at", "at_ms", metavar="TIME", callback=_at, help="The transaction that was under way then (UTC).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.option("--scenario", "as_scenario", is_flag=True, help="A scenario that does the same again.")
@asking
def timeline(
    transactional_id: str,
    at_ms: int | None,
    as_json: bool,
    as_scenario: bool,
    http_url: str | None,
    http_token_file: str | None,
) -> None:
    """Every request, state, batch, marker and answer of a transactional id, with times.

    Asks the broker's journal, which begins with the broker's start and keeps the last 256 events of an id."""
    if http_url is None:
        say_and_end(f"transactions timeline {NEEDED}")
    query = None if at_ms is None else {"at": at_ms}
    try:
        said = told(http_url, of_id(transactional_id, "timeline"), http_token_file, query)
        if as_json:
            click.echo(json.dumps(said, indent=2))
        elif as_scenario:
            click.echo(scenario_of(said), nl=False)
        else:
            console = Console(highlight=False, soft_wrap=True)
            for kind, line in timeline_lines(said):
                console.print(Text(printable(line), style=STYLES[kind]))
    except (NotTold, CannotBeTold) as problem:
        say_and_end(str(problem))
