"""What a group waits for, and whom: its coordinator knows it, and Kafka's protocol does not say it."""

from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from broker.http.operation import Operation, Problem, Schema
from broker.http.seen_broker import SeenBroker
from coordinator.groups.seen.awaited import AwaitedMember
from coordinator.runtime import ShardState

_TIME = {"type": "integer", "description": "milliseconds since 1970"}
_PERHAPS = {"type": ["integer", "null"], "description": "milliseconds since 1970"}
_TEXT = {"type": ["string", "null"]}
MEMBER: Schema = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("memberId", "groupInstanceId", "clientId", "host"), _TEXT),
        "sessionTimeoutMs": {"type": "integer"},
        "heardAt": {**_PERHAPS, "description": "null while it waits for the others"},
        "givenUpAt": _PERHAPS,
        "isAwaited": {"type": "boolean"},
        "awaitedUntil": _PERHAPS,
    },
}
WAITING: Schema = {
    "type": "object",
    "required": ["group", "now", "known"],
    "properties": {
        "group": {"type": "string"},
        "now": _TIME,
        "known": {"type": "boolean"},
        "type": _TEXT,
        "state": _TEXT,
        "since": _PERHAPS,
        "until": {**_PERHAPS, "description": "when a rebalance goes on without those who are missing"},
        "isInitial": {"type": "boolean"},
        "newcomers": {"type": "integer"},
        "members": {"type": "array", "items": MEMBER},
    },
}


async def waiting(broker: SeenBroker, request: Request) -> Response:
    """Of one group, of whatever protocol."""
    group_id: str = request.path_params["group_id"]

    async def look() -> dict[str, Any] | None:
        groups = broker.services.groups
        shard, now_ms = groups.shard_of(group_id), groups.clock.now_ms()
        head = {"group": group_id, "now": now_ms, "known": False}
        if shard is None or shard.state is not ShardState.ACTIVE:
            return head if not groups.indexes() else None
        found = shard.machine.awaited.of(group_id)
        if found is None:
            return head
        said = {
            **head,
            "known": True,
            "type": found.kind,
            "state": found.state,
            "since": found.since_ms,
            "until": found.until_ms,
            "isInitial": found.is_initial,
            "newcomers": found.newcomers,
        }
        return {**said, "members": await broker.services.environment.time_slice().all(_members(found.members))}

    answer = await broker.on_loop(look)
    if answer is None:
        raise Problem(503, "the coordinator of this group is not loaded yet, or its log is damaged")
    return JSONResponse(answer)


def _members(members: Iterator[AwaitedMember]) -> Iterator[dict[str, Any]]:
    for one in members:
        ends_ms = one.given_up_at_ms
        yield {
            "memberId": one.member_id,
            "groupInstanceId": one.instance_id,
            "clientId": one.client_id,
            "host": one.client_host,
            "sessionTimeoutMs": one.session_timeout_ms,
            "heardAt": None if ends_ms is None else ends_ms - one.session_timeout_ms,
            "givenUpAt": ends_ms,
            "isAwaited": one.is_awaited,
            "awaitedUntil": one.awaited_until_ms,
        }


ROUTES = (
    Operation(
        "GET", "/v1/groups/{group_id}/waiting", waiting, "What a group waits for, and whom", WAITING, refusals=(503,)
    ),
)
