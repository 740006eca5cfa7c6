"""`tallystick explain group`: what a group of consumers waits for."""

import json
import sys
from typing import Any

import click

from tallystick.cli.connecting import asked, connecting, say_and_end
from tallystick.cli.explaining.status import STANDS_STILL
from tallystick.cli.tables import say
from tallystick.inspection.groups import Member, described
from tallystick.inspection.waiting import Handover, Waiting, waiting


@click.command()
@click.argument("group_id", metavar="GROUP")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@connecting
def group(group_id: str, as_json: bool, bootstrap: str, command_config: Any) -> None:
    """What a group waits for: who has to give up what, and whose heartbeat is missing."""
    found = asked(bootstrap, command_config, lambda client: described(client, group_id))
    if found is None:
        say_and_end(f"there is no group of consumers {group_id!r}")
    its = waiting(found)
    if as_json:
        click.echo(json.dumps(_as_json(its), indent=2))
    else:
        for line in said(its):
            say(line)
    sys.exit(0 if its.is_settled else STANDS_STILL)


def said(its: Waiting) -> list[str]:
    """In sentences."""
    of = its.group
    lines = [f"{of.name}: a group of the {of.kind} protocol with {len(of.members)} members, {of.state}. {its.words}"]
    late = {one.member_id for one in its.late}
    lines += [f"  {_about(one, others_are_late=bool(late - {one.to.member_id}))}" for one in its.handovers]
    waited_for = {one.holder.member_id for one in its.handovers if one.holder is not None}
    lines += [
        f"  {_name(one)} is at epoch {one.epoch}, the group at {of.epoch}: its next heartbeat is waited for."
        for one in its.late
        if one.member_id not in waited_for
    ]
    return lines


def _about(one: Handover, *, others_are_late: bool) -> str:
    where = f"{one.place[0]}-{one.place[1]}"
    if one.holder is not None:
        return (
            f"{where} is to go to {_name(one.to)}: {_name(one.holder)} has it still, and has to give it up with a "
            "heartbeat, which it sends when it calls poll()."
        )
    if others_are_late:
        return f"{where} is to go to {_name(one.to)}, when whoever had it has given it up: one of those below."
    return f"{where} is to go to {_name(one.to)}, with its next heartbeat."


def _name(member: Member) -> str:
    static = f", group.instance.id {member.instance_id}" if member.instance_id else ""
    return f"{member.member_id} (client {member.client_id} at {member.host.removeprefix('/')}{static})"


def _as_json(its: Waiting) -> dict[str, Any]:
    of = its.group
    return {
        "group": of.name,
        "type": of.kind,
        "state": of.state,
        "epoch": of.epoch,
        "assignmentEpoch": of.target_epoch,
        "members": [
            {
                "memberId": one.member_id,
                "groupInstanceId": one.instance_id,
                "clientId": one.client_id,
                "host": one.host,
                "epoch": one.epoch,
            }
            for one in of.members
        ],
        "waitsFor": [
            {
                "topic": one.place[0],
                "partition": one.place[1],
                "to": one.to.member_id,
                "heldBy": one.holder and one.holder.member_id,
            }
            for one in its.handovers
        ],
        "late": [one.member_id for one in its.late],
    }
