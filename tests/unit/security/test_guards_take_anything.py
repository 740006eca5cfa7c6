"""Whatever a request holds, a client without rights gets an answer that can be written, or its connection ends."""

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from broker.api.api_families import load_handlers
from broker.api.catalogue import NO_ANSWER, CloseConnection, Deferred, Entry
from broker.api.context import ConnectionInfo
from broker.api.dispatch import Dispatcher
from broker.api.services import Services
from protocol.acls import Operation, ResourceType
from protocol.errors import ProtocolError
from protocol.framing import read_response
from tests.harness.framing import request_frame
from tests.property.message_strategies import messages_of
from tests.unit.security.door_rig import ALICE, HOST, PATIENCE_S, allow, behind_the_door, grant

EXAMPLES = 12
SOME_RIGHTS = (
    allow(Operation.DESCRIBE, ResourceType.TOPIC, "*"),
    allow(Operation.DESCRIBE, ResourceType.GROUP, "*"),
    allow(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "*"),
)


def asked(entry: Entry, version: int) -> list[Any]:
    """Some requests of this version."""
    found: list[Any] = []

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(messages_of(entry.request, version))
    def draw(request: Any) -> None:
        found.append(request)

    draw()
    return found


async def answer(node: Services, request: Any, version: int) -> Any:
    dispatcher = Dispatcher(node, load_handlers())
    connection = ConnectionInfo(1, "PLAINTEXT", HOST, 1, principal=ALICE)
    try:
        call = dispatcher.read(connection, memoryview(request_frame(request, version, 7))[4:])
        result = dispatcher.run(call)
        if hasattr(result, "__await__"):
            result = await asyncio.wait_for(result, PATIENCE_S)
        if isinstance(result, Deferred):
            result = await asyncio.wait_for(result.answer, PATIENCE_S)
    except (ProtocolError, CloseConnection):
        return None
    if result is NO_ANSWER:
        return None
    written = b"".join(bytes(part) for part in call.encode(result))
    return read_response(call.entry.api_key, version, written[4:])


@pytest.mark.parametrize("rights", ["none", "some"])
def test_an_answer_or_the_end(rights: str) -> None:
    async def story(node: Services) -> None:
        if rights == "some":
            assert not any(await grant(node, *SOME_RIGHTS))
        for entry in load_handlers().values():
            for version in sorted({entry.versions.start, entry.versions.stop - 1}):
                for request in asked(entry, version):
                    await answer(node, request, version)

    behind_the_door(story, settings={"auto.create.topics.enable": "false"})
