"""`tallystick explain group`: what a group of consumers waits for."""

import json
import sys
from collections.abc import Mapping
from typing import Any

import click

from tallystick.cli.connecting import asked, connecting, say_and_end
from tallystick.cli.explaining.status import STANDS_STILL
from tallystick.cli.tables import say
from tallystick.client.client import Client
from tallystick.inspection.groups import Group, Member, described, not_of_consumers
from tallystick.inspection.waiting import Handover, Waiting, waiting
from tallystick.journals.asking import NotTold, asking, told
from tallystick.journals.awaited import late, missing_lines, path_of
from tallystick.written import counted

Coordinator = Mapping[str, Any]
"""What the coordinator says over HTTP; empty where nobody asked it, or it does not know the group."""
_REBALANCES = frozenset({"PreparingRebalance", "CompletingRebalance"})


@click.command()
@click.argument("group_id", metavar="GROUP")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@asking
@connecting
def group(
    group_id: str,
    as_json: bool,
    http_url: str | None,
    http_token_file: str | None,
    bootstrap: str,
    command_config: Any,
) -> None:
    """What a group waits for: who has to give up what, who is missing, and whose heartbeat is late.

    Of the classic protocol, and of heartbeats, Kafka's protocol does not tell it: a Tallystick does with --http."""

    async def look(client: Client) -> tuple[Group | None, str]:
        found = await described(client, group_id)
        return found, "" if found is not None else await not_of_consumers(client, group_id)

    found, why_not = asked(bootstrap, command_config, look)
    coordinator = _coordinator(group_id, http_url, http_token_file)
    if found is None and not coordinator:
        say_and_end(why_not)
    its = None if found is None else waiting(found)
    if as_json:
        click.echo(json.dumps({**_as_json(its), "coordinator": coordinator or None}, indent=2))
    else:
        for line in [*(said(its) if its is not None else _of_others(coordinator)), *_indented(coordinator)]:
            say(line)
        if its is not None and its.group.state in _REBALANCES and not http_url:
            say("Who is missing, a Tallystick with an HTTP side tells: `--http http://HOST:PORT`.", err=True)
    is_settled = its is None or its.is_settled
    sys.exit(STANDS_STILL if not is_settled or late(coordinator) else 0)


def _coordinator(group_id: str, http_url: str | None, token_file: str | None) -> Coordinator:
    if http_url is None:
        return {}
    try:
        answer = told(http_url, path_of(group_id), token_file)
    except NotTold as problem:
        say(f"tallystick: {problem}", err=True)
        return {}
    return answer if answer["known"] else {}


def _of_others(of: Coordinator) -> list[str]:
    """A share group or a streams group: nothing is known but what its coordinator says."""
    return [f"{of['group']}: a {of['type']} group with {counted(len(of['members']), 'member')}, {of['state']}."]


def _indented(coordinator: Coordinator) -> list[str]:
    return [f"  {line}" for line in missing_lines(coordinator)] if coordinator else []


def said(its: Waiting) -> list[str]:
    """In sentences."""
    of = its.group
    members = counted(len(of.members), "member")
    lines = [f"{of.name}: a group of the {of.kind} protocol with {members}, {of.state}. {its.words}"]
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


def _as_json(its: Waiting | None) -> dict[str, Any]:
    if its is None:
        return {}
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
