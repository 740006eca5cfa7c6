"""`tallystick consume` and `tallystick tail`: records of topics, in the words of `kafka-console-consumer`.

Status 0 when they are shown (or whoever read them has seen enough), 1 with a sentence on stderr when they are not, 2
for wrong options, 130 when it was interrupted.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from tallystick.administration.group_offsets import Move, execute
from tallystick.cli.connecting import asked, connecting, say_and_end
from tallystick.cli.records.interrupted import ending_when_interrupted
from tallystick.cli.records.output import NotWritten, ReaderGone, write_out
from tallystick.cli.records.rendering import FIELDS, Manner, renderer
from tallystick.cli.records.written_topics import wanted_places
from tallystick.client.background import now_ms
from tallystick.client.client import Client
from tallystick.inspection.groups import committed
from tallystick.inspection.places import Place
from tallystick.records.condition import BadCondition, Test, read_condition
from tallystick.records.reader import Reader, Seen
from tallystick.records.spots import BEGINNING, END, Spot, offsets_of, read_spot
from tallystick.records.with_schemas import NoRegistry, with_schemas
from tallystick.schemas.registry import Registry

Command = Callable[..., None]
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
_ISOLATION = {"committed": COMMITTED, "uncommitted": UNCOMMITTED, COMMITTED: COMMITTED, UNCOMMITTED: UNCOMMITTED}
_SPOTS = "beginning, end, an offset, -100 (so many before the end), a time or -5m (so long ago)"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be read."""

    topics: tuple[str, ...]
    begin: Spot
    end: Spot | None
    """None: on and on."""
    most: int | None
    test: Test
    read_committed: bool
    with_control: bool
    registry: Registry
    group: str | None = None


def showing(command: Command) -> Command:
    """The options that both commands have."""
    fields = ", ".join(FIELDS)
    for option in (
        connecting,
        click.option("--json", "as_json", is_flag=True, help="The same as --format json: an object a line."),
        click.option("--template", help=f"A line of {{fields}} for each record: {fields}; \\n and \\t."),
        click.option("--key-separator", help="text: the key and this stand before the value."),
        click.option("--format", "style", type=click.Choice(["text", "json", "hex", "template"]), help="How."),
        click.option("--control", is_flag=True, help="Markers of transactions, too."),
        click.option(
            "--isolation",
            "--isolation-level",
            type=click.Choice(list(_ISOLATION)),
            default=COMMITTED,
            help="read_uncommitted shows what became of each transaction: committed, aborted, open.",
        ),
        click.option(
            "--schema-registry",
            "registry_url",
            help="Shows as JSON what has a schema there: Avro and Protobuf (with tallystick[schemas]), JSON Schema.",
        ),
        click.option("--where", help="Only these: \"value.total > 10 and not header.kind = 'test'\"."),
        click.option("--max", "most", type=click.IntRange(min=1), help="No more than so many records."),
        click.argument("topics", nargs=-1, required=True, metavar="TOPIC[-PARTITION]..."),
    ):
        command = option(command)
    return command


@click.command()
@showing
@click.option("--from", "begin", default="beginning", help=f"Where to begin: {_SPOTS}.")
@click.option("--until", "end", help=f"Where to end, that one not included: {_SPOTS}. Without it, what is there now.")
@click.option("--follow", is_flag=True, help="Go on with what comes, until it is interrupted.")
@click.option("--group", help="Begin where this group has committed, and commit what was shown; it has no members.")
def consume(*, begin: str, end: str | None, follow: bool, group: str | None, **rest: Any) -> None:
    """Show records of topics, on any Kafka 3.0 or newer. TOPIC:0,2 are some of its partitions."""
    if follow and end is not None:
        raise click.UsageError("it is either --follow or --until")
    until = None if follow else END if end is None else _spot(end, "--until")
    _show(_spot(begin, "--from"), until, group, **rest)


@click.command()
@showing
@click.option("--from", "begin", default="end", help=f"Where to begin: {_SPOTS}.")
def tail(*, begin: str, **rest: Any) -> None:
    """Show records of topics as they come, until it is interrupted."""
    _show(_spot(begin, "--from"), None, None, **rest)


def _spot(written: str, name: str) -> Spot:
    try:
        return read_spot(written, now_ms())
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint=name) from None


def _show(
    begin: Spot,
    end: Spot | None,
    group: str | None,
    *,
    topics: tuple[str, ...],
    most: int | None,
    where: str | None,
    isolation: str,
    control: bool,
    registry_url: str | None,
    bootstrap: str,
    command_config: Any,
    style: str | None,
    **manner: Any,
) -> None:
    read_committed = _ISOLATION[isolation] == COMMITTED
    try:
        test = (lambda _: True) if where is None else read_condition(where)
    except BadCondition as problem:
        raise click.BadParameter(str(problem), param_hint="--where") from None
    try:
        shown = renderer(_manner(**manner, style=style, with_fates=control or not read_committed))
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="--template") from None
    wanted = Wanted(topics, begin, end, most, test, read_committed, control, _registry(registry_url, style), group)
    with ending_when_interrupted():
        try:
            asked(bootstrap, command_config, lambda client: _read(client, wanted, shown))
        except ReaderGone:
            return
        except (NotWritten, NoRegistry) as problem:
            say_and_end(str(problem))


def _registry(url: str | None, style: str | None) -> Registry:
    if url is not None and style == "hex":
        raise click.UsageError("--format hex shows bytes as they were written: it is without --schema-registry")
    try:
        return Registry(url)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="--schema-registry") from None


def _manner(
    *, style: str | None, template: str | None, key_separator: str | None, as_json: bool, with_fates: bool
) -> Manner:
    implied = "json" if as_json else "template" if template is not None else "text"
    if style not in (None, implied) and (as_json or template is not None):
        raise click.UsageError("it is one of --json, --template and --format")
    if style == "template" and template is None:
        raise click.UsageError("--format template needs --template")
    if key_separator is not None and (style or implied) != "text":
        raise click.UsageError("--key-separator is for --format text")
    return Manner(
        style or implied,
        template or "",
        key_separator,
        with_fates,
        is_terminal=sys.stdout is not None and sys.stdout.isatty(),
    )


async def _read(client: Client, wanted: Wanted, shown: Callable[[Seen], bytes]) -> None:
    places = await wanted_places(client, wanted.topics)
    begins = await offsets_of(client, places, wanted.begin, read_committed=wanted.read_committed)
    if wanted.group is not None:
        ends = await offsets_of(client, places, END, read_committed=wanted.read_committed)
        starts = await offsets_of(client, places, BEGINNING, read_committed=wanted.read_committed)
        known = await committed(client, wanted.group)
        begins |= {at: min(max(known[at], starts[at]), ends[at]) for at in places if at in known}
    until = None
    if wanted.end is not None:
        until = await offsets_of(client, places, wanted.end, read_committed=wanted.read_committed)

    async def look_for_more() -> dict[Place, int]:
        """A partition that was added while somebody follows is read from its first record on."""
        new = [place for place in await wanted_places(client, wanted.topics) if place not in begins]
        return await offsets_of(client, new, BEGINNING, read_committed=wanted.read_committed) if new else {}

    reader = Reader(
        client,
        begins,
        until,
        read_committed=wanted.read_committed,
        with_control=wanted.with_control,
        look_for_more=look_for_more if until is None else None,
    )
    done: dict[Place, int] = {}
    try:
        await _show_all(reader, wanted, shown, done)
    finally:
        if wanted.group is not None and done:
            moves = [Move(place, None, offset, is_cut=False) for place, offset in sorted(done.items())]
            await execute(client, wanted.group, moves)


async def _show_all(reader: Reader, wanted: Wanted, shown: Callable[[Seen], bytes], done: dict[Place, int]) -> None:
    """`done`: what is to be committed, by partition, as far as it was shown."""
    left = wanted.most
    async for place, piece in reader.pieces():
        found, behind = [], reader.positions[place]
        for one in await with_schemas(wanted.registry, piece):
            if wanted.test(one):
                found.append(shown(one))
                if left is not None and len(found) == left:
                    behind = one.record.offset + 1
                    break
        if found:
            write_out(b"".join(found))
        done[place] = behind
        if left is not None:
            left -= len(found)
            if not left:
                return
