"""`tallystick copy`: a topic into another, of this cluster or another, exactly once.

Status 0 when all that was there is copied, 1 with a sentence on stderr when it is not, 2 for wrong options, 130 when it
was interrupted. Whenever it ends, whatever ends it: the same command goes on where it stopped.
"""

import json
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from protocol.records.compression import NAMES
from tallystick.cli.connecting import addresses, asked, client_of, connecting, say_and_end
from tallystick.cli.records.interrupted import ending_when_interrupted
from tallystick.cli.tables import say
from tallystick.client.client import Client
from tallystick.client.errors import ConnectionLost, Fenced
from tallystick.records.copying import CannotCopy, Copied, Copy, Plan
from tallystick.written import counted


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("--to", callback=addresses, required=True, metavar="HOST:PORT,…", help="The cluster of the target.")
@click.option("--to-command-config", type=click.File(encoding="utf-8"), help="Settings of a client, for that cluster.")
@click.option("--follow", is_flag=True, help="Go on with what comes, until it is interrupted.")
@click.option(
    "--name", help="Of the copy: its transactional id, and the group in the target with the source's offsets."
)
@click.option("--skip-missing", is_flag=True, help="Go on although records were deleted before they were copied.")
@click.option("--first", is_flag=True, help="It never ran before, though the target has records already.")
@click.option("--transaction-records", type=click.IntRange(min=1), default=20_000, help="About so many in one.")
@click.option("--compression", type=click.Choice(NAMES), default="none", help="Of the batches.")
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
@connecting
def copy(
    *,
    source: str,
    target: str,
    to: str,
    to_command_config: Any,
    name: str | None,
    compression: str,
    as_json: bool,
    bootstrap: str,
    command_config: Any,
    **options: Any,
) -> None:
    """Copy what readers of committed records are shown of SOURCE into TARGET, which is made where it is missing.

    Partitions, timestamps, keys and headers are kept. Records and the source's offsets are in one transaction of the
    target: after a crash the same command goes on without loss and without doubling.
    """
    if name == "":
        raise click.UsageError("--name is not empty")
    shown = _Bar() if Console(stderr=True).is_terminal else None

    async def work(client: Client) -> Copied:
        try:
            async with client_of(to, to_command_config) as other:
                cluster = (await client.metadata([])).cluster_id
                called = name or f"tallystick-copy-{cluster}-{source}-{target}"
                plan = Plan(source, target, called, compression=NAMES.index(compression), **options)
                running = Copy(client, other, plan, shown.show if shown is not None else lambda _: None)
                try:
                    await running.run()
                except Fenced:
                    say_and_end("another copy of the same --name has taken over; nothing is lost and nothing doubled")
                finally:
                    if shown is not None:
                        shown.stop()
                return running.copied
        except (OSError, ConnectionLost) as problem:
            say_and_end(f"{bootstrap} or {to} cannot be reached: {problem}")

    with ending_when_interrupted():
        try:
            copied = asked(bootstrap, command_config, work)
        except CannotCopy as problem:
            say_and_end(str(problem))
    _report(source, target, copied, as_json=as_json)


def _report(source: str, target: str, copied: Copied, *, as_json: bool) -> None:
    if as_json:
        offsets = {str(number): offset for number, offset in sorted(copied.positions.items())}
        said = {"source": source, "target": target, "records": copied.records, "transactions": copied.transactions}
        click.echo(json.dumps({**said, "sourceOffsets": offsets}, indent=2))
        return
    records, transactions = counted(copied.records, "record"), counted(copied.transactions, "transaction")
    say(f"Copied {records} in {transactions} from {source} into {target}.")


class _Bar:
    """How far it has come, on a terminal."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._task = self._progress.add_task("copied", total=None)
        self._progress.start()

    def show(self, copied: Copied) -> None:
        text = counted(copied.records, "record")
        self._progress.update(self._task, description=text, completed=copied.done, total=copied.total)

    def stop(self) -> None:
        self._progress.stop()
