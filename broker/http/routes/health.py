"""Whether the broker is alive, and whether it is ready for clients: for those who start and watch it.

Alive is one whose loop takes turns; one that is not is to be started again. Ready is one all of whose logs are open and
whose coordinators are loaded. A log that is damaged does not keep it from being ready, for it is like that until
somebody repairs it, and everything else is served: it is named. So is a bucket that is away (`held_up`): all nodes of
a cluster have the same, and groups, offsets and readers go on. Who was ready once stays so: topics that are made later
are closed for a moment, too.
"""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from broker.api.services import Services
from broker.coordination.coordinators import Shards
from broker.http.operation import Operation
from broker.http.seen_broker import SeenBroker, Unanswered
from coordinator.runtime import ShardState

NAMED_MOST = 20
"""Of partitions that are offline."""

_REASONS = {"type": "array", "items": {"type": "string"}}
LIVE = {
    "type": "object",
    "required": ["live", "reasons"],
    "properties": {"live": {"type": "boolean"}, "reasons": _REASONS},
}
READY = {
    "type": "object",
    "required": ["ready", "reasons"],
    "properties": {
        "ready": {"type": "boolean"},
        "reasons": _REASONS,
        "held_up": _REASONS,
        "offline_partitions": {"type": "integer"},
        "offline": {"type": "array", "items": {"type": "string"}, "maxItems": NAMED_MOST},
    },
}


async def live(broker: SeenBroker, request: Request) -> Response:
    """200 as long as the loop takes turns and no sync has failed."""

    async def look() -> list[str]:
        return _failures(broker)

    try:
        reasons = await broker.on_loop(look)
    except Unanswered as problem:
        reasons = [str(problem)]
    return JSONResponse({"live": not reasons, "reasons": reasons}, 503 if reasons else 200)


async def ready(broker: SeenBroker, request: Request) -> Response:
    """200 when clients get all that there is."""
    offline: list[str] = []
    held_up: list[str] = []

    async def look() -> list[str]:
        topics = broker.services.topics
        offline.extend(partition.name for partition in topics.offline())
        unfinished = [] if broker.was_ready else _unfinished(broker.services)
        broker.was_ready = not unfinished
        silence, waiting = broker.node.group_commit.silence(), broker.node.group_commit.held_up()
        held_up.extend([] if waiting is None else [waiting])
        return _failures(broker) + unfinished + ([] if silence is None else [silence])

    try:
        reasons = ["the broker is stopping"] if broker.is_stopping else await broker.on_loop(look)
    except Unanswered as problem:
        reasons = [str(problem)]
    said = {
        "ready": not reasons,
        "reasons": reasons,
        "held_up": held_up,
        "offline_partitions": len(offline),
        "offline": offline[:NAMED_MOST],
    }
    return JSONResponse(said, 503 if reasons else 200)


def _failures(broker: SeenBroker) -> list[str]:
    failure = broker.node.failure
    return [] if failure is None else [f"storage failed: {failure}"]


def _unfinished(services: Services) -> list[str]:
    reasons = []
    if services.topics.to_open.any_left:
        reasons.append("logs are still being opened")
    for name, shards in (
        ("transaction coordinators", services.transactions),
        ("group coordinators", services.groups),
        ("share coordinators", services.share_state.shards),
    ):
        if left := _loading(shards):
            reasons.append(f"{name} are still loading ({left} left)")
    return reasons


def _loading(shards: Shards[Any]) -> int:
    """How many are not loaded yet. Those over a damaged log never are, and are not counted."""
    known = shards.all()
    missing = max(0, len(shards.indexes()) - len(known))
    return missing + sum(1 for shard in known if shard.state is ShardState.LOADING)


ROUTES = (
    Operation("GET", "/health/live", live, "Whether the broker is alive", LIVE, refusals=(503,), is_open=True),
    Operation("GET", "/health/ready", ready, "Whether it is ready for clients", READY, refusals=(503,), is_open=True),
)
