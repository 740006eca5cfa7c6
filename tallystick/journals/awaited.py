"""Whom a group waits for, as its coordinator says over HTTP (`GET /v1/groups/GROUP/waiting`), in sentences."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from tallystick.durations import in_words

Said = Mapping[str, Any]
LATE_PART = 3
"""A member is late that was silent for more than one part in so many of its session: heartbeats come three times as
often at least (heartbeat.interval.ms)."""
FEW = 20
"""Members that are named; of others it is said how many."""


def path_of(group_id: str) -> str:
    """What is asked."""
    return f"/v1/groups/{quote(group_id, safe='')}/waiting"


def late(said: Said) -> list[Said]:
    """Members whose heartbeats are missing."""
    return [one for one in said.get("members", ()) if _silent_ms(said, one) * LATE_PART > one["sessionTimeoutMs"]]


def _silent_ms(said: Said, member: Said) -> int:
    heard = member["heardAt"]
    return 0 if heard is None else max(0, said["now"] - heard)


def missing_lines(said: Said) -> Iterator[str]:
    """Who is waited for, and until when; and whose heartbeat is late."""
    if not said["known"]:
        return
    awaited = [one for one in said["members"] if one["isAwaited"]]
    yield from _few([f"It waits for {name_of(one)}: {_how_it_is(said, one)}" for one in awaited])
    if said["isInitial"]:
        yield f"It is new, and lets members come for {_left(said, said['until'])} (group.initial.rebalance.delay.ms)."
    elif awaited and said["until"] is not None:
        yield f"If not all of them come, it goes on without them in {_left(said, said['until'])}."
    if said["newcomers"]:
        yield f"{said['newcomers']} got a member id and did not come back with it yet."
    yield from _few([_lateness(said, one) for one in late(said) if not one["isAwaited"]])


def _few(lines: list[str]) -> list[str]:
    return [*lines[:FEW], *([f"and {len(lines) - FEW} more."] if len(lines) > FEW else [])]


def _how_it_is(said: Said, member: Said) -> str:
    alone = member["awaitedUntil"]
    patience = "" if alone is None else f" It is given up in {_left(said, alone)} if it does not do so."
    silent_ms, ends = _silent_ms(said, member), member["givenUpAt"]
    if ends is None:
        return f"it was not heard of yet.{patience}"
    if silent_ms * LATE_PART > member["sessionTimeoutMs"]:
        return (
            f"its heartbeats are missing, too, for {in_words(silent_ms)}; it is given up in {_left(said, ends)} (its "
            f"session.timeout.ms is {member['sessionTimeoutMs']})."
        )
    return f"it is alive, heard of {in_words(silent_ms)} ago, and goes on when its program calls poll().{patience}"


def _lateness(said: Said, member: Said) -> str:
    return (
        f"{name_of(member)} is late: nothing was heard of it for {in_words(_silent_ms(said, member))}, and it is given "
        f"up in {_left(said, member['givenUpAt'])} (its session.timeout.ms is {member['sessionTimeoutMs']})."
    )


def _left(said: Said, at_ms: int) -> str:
    return in_words(at_ms - said["now"])


def name_of(member: Said) -> str:
    """As in the rest of what is said of a group."""
    static = f", group.instance.id {member['groupInstanceId']}" if member["groupInstanceId"] else ""
    return f"{member['memberId']} (client {member['clientId']} at {member['host'].removeprefix('/')}{static})"
