"""What a request needs to be allowed: needs, the guard of an API, and the permissions of a client.

A guard stands before its handler: it takes out of a request what its client may not do, has the rest handled, and adds
to the answer what was refused, or leaves out of it what the client may not know of. Its `needs` are what it asks for,
and what the table in docs/security.md is made of. Without an authorizer no guard is asked.

A request belongs to its handler alone, and so does an answer: a guard changes both in place.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Protocol, TypeVar

from broker.api.context import RequestContext
from broker.process.environment import Environment
from broker.process.time_slice import TimeSlice
from broker.security.authorizer import Authorizer
from protocol.acls import CLUSTER_NAME, OPERATIONS, Operation, ResourceType
from protocol.errors import ErrorCode

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Need:
    """An operation on a resource. `error` is the answer where it is denied; None where something is left out then, or
    another need will do. `of` says which resources, for the table."""

    operation: Operation
    resource: ResourceType
    error: ErrorCode | None
    of: str = ""


class Permissions:
    """What the client of one request may do. Each question goes into the log of decisions, `quietly` only with a
    yes."""

    __slots__ = ("_authorizer", "_host", "_principal", "_request")

    def __init__(self, authorizer: Authorizer, context: RequestContext, request: str) -> None:
        self._authorizer = authorizer
        self._principal = context.connection.principal
        self._host = context.connection.peer_host
        self._request = request

    @property
    def state(self) -> tuple[int, str]:
        """As long as it is equal, the same principal has the same rights."""
        return self._authorizer.changes, self._host

    def have(self, need: Need, name: str = CLUSTER_NAME, *, quietly: bool = False) -> bool:
        """Whether the client has what is needed of the resource of this name."""
        return self._authorizer.may(
            self._principal,
            self._host,
            need.operation,
            need.resource,
            name,
            request=self._request,
            quietly=quietly,
        )

    def have_with_some(self, need: Need) -> bool:
        """Whether the client may have that of any resource."""
        return self._authorizer.may_with_some(self._principal, self._host, need.operation, need.resource)

    def operations(self, resource: ResourceType, name: str = CLUSTER_NAME) -> int:
        """All that the client may do with a resource, as bits."""
        bits = 0
        for operation in OPERATIONS[resource]:
            if self._authorizer.may(
                self._principal, self._host, operation, resource, name, request=self._request, quietly=True
            ):
                bits |= 1 << operation
        return bits


Handling = Callable[[Any, RequestContext, Any], Any]
"""A handler: (services, context, request) → what it answers."""


@dataclass(slots=True)
class Call:
    """One request before its handler. `services` are those of the node. Not frozen: there is one for each request, and
    that is three times as quick to make."""

    permissions: Permissions
    handler: Handling
    services: Any
    context: RequestContext

    def handled(self, request: Any) -> Any:
        """What the handler answers, now or later."""
        return self.handler(self.services, self.context, request)

    async def answer(self, request: Any) -> Any:
        """The same, waited for."""
        answer = self.handler(self.services, self.context, request)
        return await answer if isawaitable(answer) else answer

    def time_slice(self) -> TimeSlice:
        environment: Environment = self.services.environment
        return environment.time_slice()


@dataclass(frozen=True, slots=True)
class Guard:
    """See the head of this file. `answer(call, request)` is what the client gets; `also` says what else there is to
    know, for the table."""

    needs: tuple[Need, ...]
    answer: Callable[[Call, Any], Any]
    also: str = ""


class WithAuthorizer(Protocol):
    """What of the node's services says whether there is an authorizer."""

    @property
    def authorizer(self) -> Authorizer | None: ...


def permissions_of(services: WithAuthorizer, context: RequestContext, request: str) -> Permissions | None:
    """For handlers that ask by themselves; None where everybody may do everything."""
    authorizer = services.authorizer
    return None if authorizer is None else Permissions(authorizer, context, request)


def _handled(call: Call, request: Any) -> Any:
    return call.handled(request)


def open_to_all(why: str) -> Guard:
    """Nothing is needed."""
    return Guard((), _handled, why)


def asks_itself(*needs: Need, also: str = "") -> Guard:
    """The handler asks, for what it needs is not in the request alone."""
    return Guard(needs, _handled, also)


def whole(
    need: Need,
    refused: Callable[[Any, ErrorCode], Any],
    name_of: Callable[[Any], str] = lambda request: CLUSTER_NAME,
    also: str = "",
) -> Guard:
    """All or nothing: one resource, that `name_of` finds in the request; `refused` makes the answer."""
    error = need.error
    assert error is not None

    def answer(call: Call, request: Any) -> Any:
        if call.permissions.have(need, name_of(request)):
            return call.handled(request)
        return refused(request, error)

    return Guard((need,), answer, also)


def whole_of_many(
    need: Need,
    *,
    elements: Callable[[Any], Iterable[Any]],
    refused: Callable[[Any, ErrorCode], Any],
    response: Callable[[list[Any]], Any],
) -> Guard:
    """The same where the answer has an error for each element of the request: `refused` makes one of them, `response`
    the answer of all."""
    error = need.error
    assert error is not None

    async def answer(call: Call, request: Any) -> Any:
        if call.permissions.have(need):
            return await call.answer(request)
        return response(await call.time_slice().each(lambda element: refused(element, error), elements(request)))

    return Guard((need,), answer)


def each(
    need: Need,
    *,
    of: str,
    into: str,
    refused: Callable[[Any, ErrorCode], Any],
    name_of: Callable[[Any], str] = lambda element: str(element.name),
    also: str = "",
) -> Guard:
    """A list of the request, `of`, whose elements are allowed one by one; what is `refused` is added to the list `into`
    of the answer."""
    error = need.error
    assert error is not None

    async def answer(call: Call, request: Any) -> Any:
        allowed, denied = await sift(
            getattr(request, of), lambda element: call.permissions.have(need, name_of(element)), call.time_slice()
        )
        setattr(request, of, allowed)
        response = await call.answer(request)
        getattr(response, into).extend(await call.time_slice().each(lambda element: refused(element, error), denied))
        return response

    return Guard((need,), answer, also)


def each_topic(
    need: Need,
    shape: "TopicShape",
    *,
    instead: Need | None = None,
    also: str = "",
) -> Guard:
    """The same for topics with partitions. Who has `instead` of the cluster may do it with every topic."""

    async def answer(call: Call, request: Any) -> Any:
        if instead is not None and call.permissions.have(instead, quietly=True):
            return await call.answer(request)
        denied = await shape.take_denied(call, request, need)
        response = await call.answer(request)
        await shape.add_refused(call, response, denied, need)
        return response

    return Guard((need,) if instead is None else (instead, need), answer, also)


@dataclass(frozen=True, slots=True)
class TopicShape:
    """Where in a request and its answer topics and their partitions are. `topic` makes one of the answer, `partition`
    one of its partitions out of one of the request."""

    topic: Callable[..., Any]
    partition: Callable[[Any, ErrorCode], Any]
    name: str = "name"
    partitions: str = "partitions"

    async def take_denied(self, call: Call, request: Any, need: Need) -> list[Any]:
        """Take the topics that the client may not use out of a request."""
        permissions = call.permissions
        request.topics, denied = await sift(
            request.topics, lambda topic: permissions.have(need, getattr(topic, self.name)), call.time_slice()
        )
        return denied

    async def add_refused(self, call: Call, response: Any, denied: list[Any], need: Need) -> None:
        """Add these topics of the request to its answer."""
        error, time_slice = need.error, call.time_slice()
        assert error is not None
        for topic in denied:
            refused = await time_slice.each(lambda one: self.partition(one, error), getattr(topic, self.partitions))
            response.topics.append(self.topic(**{self.name: getattr(topic, self.name)}, partitions=refused))
            await time_slice.give_way()


async def sift(
    elements: Iterable[T], is_allowed: Callable[[T], bool], time_slice: TimeSlice
) -> tuple[list[T], list[T]]:
    """Those that are allowed, and the others, in order."""
    allowed: list[T] = []
    denied: list[T] = []
    for element in elements:
        (allowed if is_allowed(element) else denied).append(element)
        if time_slice.spent():
            await time_slice.wait_for_turn()
    return allowed, denied
