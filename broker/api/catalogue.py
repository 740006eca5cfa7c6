"""The catalogue of handlers: the one list of what this broker serves.

`@handles(EndTxnRequest, EndTxnResponse, versions=range(0, 6), guard=END_TXN)` puts a function into it. Dispatch, the
ApiVersions answer, the tables in the docs and the tests are all derived from it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from broker.api.context import RequestContext
from broker.api.metering.request_meter import ApiMeter
from broker.api.permissions.need import Guard
from protocol.schema import Kind, schema_of


@dataclass(frozen=True, slots=True)
class Deferred:
    """The work is done and in order; only the answer is still to come (a Produce that waits for its fsync).

    A connection may start the next Produce meanwhile, nothing else; answers leave in request order.
    """

    answer: Awaitable[Any]


class NoAnswer:
    """The request is not answered at all (Produce with acks=0)."""


NO_ANSWER = NoAnswer()


class CloseConnection(Exception):
    """A handler's wish to close the connection, with a reason for the log (a failed acks=0 Produce; empty: there is a
    line already), and perhaps an answer that goes before."""

    def __init__(self, reason: str, answer: Any = None) -> None:
        super().__init__(reason)
        self.answer = answer


Handler = Callable[[Any, RequestContext, Any], Any]
"""(services, context, request) → response, `Deferred`, `NO_ANSWER`, or an awaitable of one of these.

What of `broker.api.services.Services` a handler uses is in its own signature."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One API as this broker serves it. `advertised` may begin lower than `versions` (KAFKA-18659: Produce lists 0)."""

    api_key: int
    name: str
    request: type
    response: type
    versions: range
    advertised: range
    handler: Handler
    guard: Guard
    """What it needs to be allowed; asked before the handler where there is an authorizer."""
    setting: str = ""
    """The one that has it served; empty for what is always served."""
    meter: ApiMeter | None = None
    """Where its requests are counted, in a broker that is watched."""


CATALOGUE: dict[int, Entry] = {}
"""api key → entry; complete once `broker.api.handlers` is imported."""


def handles(
    request: type,
    response: type,
    *,
    versions: range,
    guard: Guard,
    advertised_from: int | None = None,
    setting: str = "",
) -> Callable[[Handler], Handler]:
    """Register a handler for one API. Every version in `versions` must be one the tables know. `guard` says what it
    needs, and there is none without; `setting` has it served."""
    schema = schema_of(request)
    assert schema.kind is Kind.REQUEST
    assert schema_of(response).api_key == schema.api_key
    assert versions.start >= schema.versions.start and versions.stop <= schema.versions.stop

    def register(handler: Handler) -> Handler:
        assert schema.api_key not in CATALOGUE, f"two handlers for {schema.name}"
        first = versions.start if advertised_from is None else advertised_from
        CATALOGUE[schema.api_key] = Entry(
            schema.api_key,
            schema.name.removesuffix("Request"),
            request,
            response,
            versions,
            range(first, versions.stop),
            handler,
            guard,
            setting,
        )
        return handler

    return register
