"""`tallystick explain lag`: how far a group is behind, in offsets and in records, and why."""

import json
from typing import Any

import click

from tallystick.cli.connecting import asked, connecting, say_and_end
from tallystick.cli.explaining.status import end
from tallystick.cli.tables import say
from tallystick.client.client import Client
from tallystick.inspection.groups import described, not_of_consumers
from tallystick.inspection.lag import COUNTED_OFFSETS, Lag, Standing, lags
from tallystick.inspection.places import Failed
from tallystick.written import counted

_DONE = (Standing.DONE,)


@click.command()
@click.argument("group_id", metavar="GROUP")
@click.option("--count-up-to", default=COUNTED_OFFSETS, show_default=True, help="Offsets of a partition to look into.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array on stdout.")
@connecting
def lag(group_id: str, count_up_to: int, as_json: bool, bootstrap: str, command_config: Any) -> None:
    """How far a group is behind: offsets as Kafka's tools count them, and the records that it would be shown, without
    markers of transactions, aborted records and what is not decided yet."""

    async def look(client: Client) -> tuple[list[Lag], str]:
        found = await lags(client, group_id, count_up_to=count_up_to, failed=failed)
        is_there = found or failed or await described(client, group_id)
        return found, "" if is_there else await not_of_consumers(client, group_id)

    failed: Failed = {}
    found, why_not = asked(bootstrap, command_config, look)
    if why_not:
        say_and_end(why_not)
    if as_json:
        click.echo(json.dumps([_as_json(one) for one in found], indent=2))
    else:
        for line in said(group_id, found) if found or not failed else ():
            say(line)
    end(stands_still=any(one.standing not in _DONE or one.held for one in found), failed=failed)


def said(group_id: str, found: list[Lag]) -> list[str]:
    """In sentences."""
    if not found:
        return [f"{group_id} has committed no offset."]
    return [f"{one.place[0]}-{one.place[1]}: {_about(one)}" for one in found]


def _about(one: Lag) -> str:
    if one.ends is None:
        return f"committed {one.committed} of a partition that is not there any more."
    at = f"committed {one.committed}, the partition ends at {one.ends.high_watermark}"
    if one.standing is Standing.BEFORE_START:
        return (
            f"{at} and begins at {one.ends.start}: what was to be read next is deleted. The consumer goes on by its "
            "auto.offset.reset; or set the offset with `tallystick groups reset-offsets`."
        )
    if one.standing is Standing.BEYOND_END:
        return f"{at}: the topic was made again or its log cut. The consumer goes on by its auto.offset.reset."
    if one.standing is Standing.DONE and not one.held:
        if one.offsets == 1:
            rest = "; the last offset is a marker or an aborted record"
        else:
            rest = f"; the last {one.offsets} offsets are markers or aborted records" if one.offsets else ""
        return f"{at}: all is read{rest}."
    readable = "too many records to be counted" if one.records is None else counted(one.records, "record")
    behind = f"{at}: {counted(one.offsets, 'offset')} behind, {readable} to be read"
    if one.held:
        where = f"{one.place[0]}-{one.place[1]}"
        last = "the last offset waits" if one.held == 1 else f"the last {one.held} offsets wait"
        behind += f"; {last} for a transaction (`tallystick explain stuck {where}`)"
    return behind + "."


def _as_json(one: Lag) -> dict[str, Any]:
    return {
        "topic": one.place[0],
        "partition": one.place[1],
        "standing": one.standing.value,
        "committed": one.committed,
        "start": one.ends and one.ends.start,
        "lastStableOffset": one.ends and one.ends.last_stable_offset,
        "highWatermark": one.ends and one.ends.high_watermark,
        "offsets": one.offsets,
        "records": one.records,
        "held": one.held,
    }
