"""`tallystick groups`: groups and their offsets, in the words of `kafka-consumer-groups`.

Status 0 when it is shown or done, 1 with a sentence on stderr when it is not.
"""

import json
from typing import Any

import click

from protocol.errors import ErrorCode
from tallystick.administration import group_offsets
from tallystick.cli.connecting import asked, connecting, say_and_end
from tallystick.cli.resetting import reset_offsets
from tallystick.cli.tables import Cell, show
from tallystick.cli.written_places import BadPlace, committed_or_named, group_option, read_places, topic_option
from tallystick.client.client import Client
from tallystick.inspection import groups as of_cluster
from tallystick.inspection.groups import Group
from tallystick.inspection.lag import COUNTED_OFFSETS, Lag, lags
from tallystick.inspection.places import Ends, Place, ends_of

as_json_option = click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")


@click.group()
def groups() -> None:
    """Look after groups and their offsets, on any Kafka 3.0 or newer."""


groups.add_command(reset_offsets)


@groups.command("list")
@as_json_option
@connecting
def list_(*, as_json: bool, bootstrap: str, command_config: Any) -> None:
    """Every group, with its type and state."""
    found = asked(bootstrap, command_config, of_cluster.listed)
    show(("Group", "Type", "State"), [(one.name, one.kind, one.state or None) for one in found], as_json=as_json)


@groups.command()
@click.argument("group_id", metavar="GROUP")
@click.option("--members", is_flag=True, help="Its members instead of its offsets.")
@click.option("--state", is_flag=True, help="Its state instead of its offsets.")
@click.option("--count-up-to", default=COUNTED_OFFSETS, show_default=True, help="Offsets of a partition to look into.")
@as_json_option
@connecting
def describe(
    *,
    group_id: str,
    members: bool,
    state: bool,
    count_up_to: int,
    as_json: bool,
    bootstrap: str,
    command_config: Any,
) -> None:
    """Where a group of consumers is in each partition, and how far behind: in offsets, as Kafka counts, and in the
    records that it would be shown (without markers and aborted records)."""
    if members and state:
        raise click.UsageError("it is either --members or --state")

    async def look(client: Client) -> tuple[Group | str, list[tuple[Cell, ...]]]:
        found = await of_cluster.described(client, group_id)
        if found is None:
            return await of_cluster.not_of_consumers(client, group_id), []
        if members or state:
            return found, []
        its = await lags(client, group_id, count_up_to=count_up_to)
        return found, _offsets(found, its, await _ends_of_unread(client, found, its))

    found, rows = asked(bootstrap, command_config, look)
    if isinstance(found, str):
        say_and_end(found)
    columns: tuple[str, ...] = _OFFSETS
    if members:
        columns, rows = _MEMBERS, _members(found)
    elif state:
        columns, rows = _STATE, [(found.name, found.kind, found.assignor or None, found.state, len(found.members))]
    show(columns, rows, as_json=as_json)


_OFFSETS = (
    "Topic",
    "Partition",
    "CurrentOffset",
    "LogEndOffset",
    "Lag",
    "LagInRecords",
    "ConsumerId",
    "Host",
    "ClientId",
)
_MEMBERS = ("ConsumerId", "GroupInstanceId", "Host", "ClientId", "Partitions", "CurrentEpoch", "Assignment")
_STATE = ("Group", "Type", "AssignmentStrategy", "State", "Members")


async def _ends_of_unread(client: Client, group: Group, its: list[Lag]) -> dict[Place, Ends]:
    """Of partitions that a member has, and nothing is committed of."""
    known = {one.place for one in its}
    return await ends_of(client, sorted({place for one in group.members for place in one.has} - known))


def _offsets(group: Group, its: list[Lag], unread: dict[Place, Ends]) -> list[tuple[Cell, ...]]:
    owners = {place: member for member in group.members for place in member.has}
    known: dict[Place, tuple[Cell, ...]] = {
        place: (None, ends.high_watermark, None, None) for place, ends in unread.items()
    }
    for one in its:
        end = one.ends.high_watermark if one.ends else None
        known[one.place] = (one.committed, end, one.offsets if one.ends else None, one.records)
    rows: list[tuple[Cell, ...]] = []
    for place, offsets in sorted(known.items()):
        owner = owners.get(place)
        who = (owner.member_id, owner.host, owner.client_id) if owner else (None, None, None)
        rows.append((*place, *offsets, *who))
    return rows


def _members(group: Group) -> list[tuple[Cell, ...]]:
    return [
        (
            one.member_id,
            one.instance_id,
            one.host,
            one.client_id,
            len(one.has),
            one.epoch,
            ",".join(f"{topic}-{number}" for topic, number in sorted(one.has)) or None,
        )
        for one in sorted(group.members, key=lambda one: one.member_id)
    ]


@groups.command()
@click.argument("group_id", metavar="GROUP")
@as_json_option
@connecting
def delete(*, group_id: str, as_json: bool, bootstrap: str, command_config: Any) -> None:
    """Delete a group that has no members, with all its offsets."""
    asked(bootstrap, command_config, lambda client: group_offsets.delete_group(client, group_id))
    done = {"group": group_id, "deleted": True}
    click.echo(json.dumps(done) if as_json else f"Deleted group {group_id}.")


@groups.command("delete-offsets")
@group_option
@topic_option
@as_json_option
@connecting
def delete_offsets(
    *, group_id: str, topics: tuple[str, ...], as_json: bool, bootstrap: str, command_config: Any
) -> None:
    """Forget what a group has committed of topics that none of its members has subscribed to."""
    if not topics:
        raise click.UsageError("it needs --topic")
    named = read_places(topics)

    async def work(client: Client) -> list[tuple[Place, int]]:
        places = await committed_or_named(client, group_id, named)
        return sorted((await group_offsets.delete_offsets(client, group_id, places)).items())

    try:
        done = asked(bootstrap, command_config, work)
    except BadPlace as problem:
        say_and_end(str(problem))
    statuses = [(*place, "Successful" if code == 0 else ErrorCode(code).name) for place, code in done]
    show(("Topic", "Partition", "Status"), statuses, as_json=as_json)
    if any(code for _, code in done):
        say_and_end("not every offset was deleted")
