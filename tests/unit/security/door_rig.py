"""A node with an authorizer, and requests to it by name of who asks, through the dispatcher."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from broker.api.api_families import load_handlers
from broker.api.catalogue import CloseConnection, Deferred
from broker.api.context import ConnectionInfo, RequestContext
from broker.api.dispatch import Call, Dispatcher
from broker.api.services import Services
from protocol.acls import Acl, Operation, PatternType, Permission, ResourceType
from protocol.errors import ProtocolError
from protocol.framing import LENGTH, read_response
from protocol.messages.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tallystick.client.acls import creation_of, filter_of
from tallystick.client.errors import ConnectionLost
from tests.harness.framing import request_frame
from tests.unit.cluster.cluster_rig import with_node

T = TypeVar("T")
ROOT, ALICE, HOST = "User:root", "User:alice", "10.0.0.1"
PATIENCE_S = 20
AUTHORIZER = {
    "authorizer.class.name": "StandardAuthorizer",
    "super.users": ROOT,
    "group.share.assignment.interval.ms": "0",
}

CLOSED = (CloseConnection, ConnectionLost, ProtocolError)
"""What a connection ends with instead of an answer, here and with a client."""
EVERYTHING = DeleteAclsFilter(
    resource_type_filter=ResourceType.ANY,
    resource_name_filter=None,
    pattern_type_filter=PatternType.ANY,
    principal_filter=None,
    host_filter=None,
    operation=Operation.ANY,
    permission_type=Permission.ANY,
)


def behind_the_door(
    story: Callable[[Services], Awaitable[T]], *, settings: dict[str, str] | None = None, **more: Any
) -> T:
    return with_node(story, settings=AUTHORIZER | (settings or {}), **more)


async def ask(
    node: Services, request: Any, version: int, who: str = ROOT, *, host: str = HOST, listener: str = "PLAINTEXT"
) -> Any:
    """What this principal is answered."""
    entry = next(one for one in load_handlers().values() if one.request is type(request))
    assert version in entry.versions
    connection = ConnectionInfo(connection_id=1, listener=listener, peer_host=host, peer_port=1, principal=who)
    context = RequestContext(connection, entry.api_key, version, 1, "test")
    answer = Dispatcher(node, load_handlers()).run(Call(entry, context, request, 0))
    if hasattr(answer, "__await__"):
        answer = await answer
    return await answer.answer if isinstance(answer, Deferred) else answer


def allow(
    operation: Operation,
    resource: ResourceType,
    name: str,
    who: str = ALICE,
    *,
    host: str = "*",
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
) -> Acl:
    return Acl(resource, name, pattern, who, host, operation, permission)


async def grant(node: Services, *acls: Acl) -> list[int]:
    """The error codes of CreateAcls, asked by the super user."""
    answer: CreateAclsResponse = await ask(node, CreateAclsRequest(creations=[creation_of(acl) for acl in acls]), 3)
    return [result.error_code for result in answer.results]


async def revoke(node: Services, acls: Iterable[Acl] = ()) -> list[int]:
    """How many ACLs each deletion took; without any named, all go."""
    filters = [filter_of(acl) for acl in acls] or [EVERYTHING]
    answer: DeleteAclsResponse = await ask(node, DeleteAclsRequest(filters=filters), 3)
    return [len(result.matching_acls) for result in answer.filter_results]


class OwnDoor:
    """A node of ours, as `api_answers` asks a broker: on a listener that knows who asks."""

    def __init__(self, node: Services, host: str = HOST) -> None:
        self._node = node
        self._host = host

    async def ask(self, request: Any, version: int, who: str) -> Any:
        """What comes over the wire for what goes over the wire."""
        connection = ConnectionInfo(1, "OUTSIDE", self._host, 1, principal=who)
        dispatcher = Dispatcher(self._node, load_handlers())
        call = dispatcher.read(connection, memoryview(request_frame(request, version, 7))[LENGTH.size :])
        async with asyncio.timeout(PATIENCE_S):
            answer = dispatcher.run(call)
            answer = await answer if hasattr(answer, "__await__") else answer
            answer = await answer.answer if isinstance(answer, Deferred) else answer
        frame = b"".join(call.encode(answer))
        return read_response(call.entry.api_key, version, frame[LENGTH.size :])[1]

    async def replace_acls(self, acls: Iterable[Acl]) -> None:
        await revoke(self._node)
        assert not any(await grant(self._node, *acls))
