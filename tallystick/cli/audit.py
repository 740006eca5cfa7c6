"""`tallystick audit`: whether a cluster keeps its promises, as far as a client can see.

Status 0 where it does, 3 where something is found, 1 with a sentence on stderr where nobody could be asked.
"""

import json
import sys
from typing import Any

import click

from tallystick.cli.connecting import asked, connecting
from tallystick.inspection import audit as of_cluster
from tallystick.written import counted

FOUND = 3


@click.command()
@click.option("--topic", "topics", multiple=True, help="Only this topic; without its groups.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array on stdout.")
@connecting
def audit(topics: tuple[str, ...], as_json: bool, bootstrap: str, command_config: Any) -> None:
    """Read every record and compare: transactions are whole, nothing that was aborted is shown, nothing hangs, offsets
    rise, checksums are right, groups stand within their partitions. On any Kafka 3.0 or newer, while nobody writes."""
    found = asked(bootstrap, command_config, lambda client: of_cluster.audit(client, topics or None))
    if as_json:
        said = [
            {"promise": one.promise, "place": one.place and list(one.place), "found": one.sentence} for one in found
        ]
        click.echo(json.dumps(said, indent=2))
    else:
        for one in found:
            click.echo(f"{one.place[0]}-{one.place[1]}: {one.sentence}." if one.place else f"{one.sentence}.")
        click.echo(f"{counted(len(found), 'finding')}." if found else "Every promise that a client can check is kept.")
    sys.exit(FOUND if found else 0)
