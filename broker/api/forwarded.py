"""Requests that change the metadata, where several nodes serve: whoever is asked has the controller answer them.

What the client may do was looked at before, by the guard of the node it asked, which goes by the same ACLs.
"""

import contextlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from broker.api.catalogue import Entry, Handler
from broker.api.context import RequestContext
from broker.api.services import WithCluster, WithController
from broker.coordination.across_nodes.forwarding import Controller
from broker.coordination.coordinators import CoordinatorError
from coordinator.cluster.configs import AlterationResult, AlteredResource
from protocol.errors import ErrorCode
from protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest
from protocol.messages.client_quotas import AlterClientQuotasRequest
from protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.messages.features import UpdateFeaturesRequest
from protocol.messages.placement import AlterPartitionReassignmentsRequest
from protocol.messages.quorum import DescribeQuorumRequest, UnregisterBrokerRequest
from protocol.messages.sasl import AlterUserScramCredentialsRequest
from protocol.schema import schema_of

FORWARDED = frozenset(
    schema_of(one).api_key
    for one in (
        AlterClientQuotasRequest,
        AlterPartitionReassignmentsRequest,
        AlterUserScramCredentialsRequest,
        CreateAclsRequest,
        DeleteAclsRequest,
        DescribeQuorumRequest,
        UnregisterBrokerRequest,
        UpdateFeaturesRequest,
    )
)
"""Topics are made, grown and deleted through `broker.coordination.topics`, which nodes do by themselves, too. Settings
are changed by `altered_by_controller`: levels of loggers, and what guards look at, are matters of the node asked."""

SETTINGS: dict[type, int] = {AlterConfigsRequest: 2, IncrementalAlterConfigsRequest: 1}
"""The versions that nodes speak among each other: the newest that this node knows may be newer than the controller."""


class ForwardingServices(WithCluster, WithController, Protocol):
    """What is used of the node beside what the handler uses."""


def with_forwarding(catalogue: Mapping[int, Entry]) -> dict[int, Entry]:
    """The same with handlers that ask the controller where this node is not it."""
    return {
        key: replace(entry, handler=_forwarding(entry)) if key in FORWARDED else entry
        for key, entry in catalogue.items()
    }


def _forwarding(entry: Entry) -> Handler:
    async def handler(services: ForwardingServices, context: RequestContext, request: Any) -> Any:
        if services.controller is not None and not services.cluster.leads:
            with contextlib.suppress(CoordinatorError):  # It is refused below, in the form that the response has.
                told: object = await services.controller.ask(request, context.api_version, entry.response)
                if told is not None:
                    return told
        answer = entry.handler(services, context, request)
        return await answer if inspect.isawaitable(answer) else answer

    return handler


async def altered_by_controller(
    controller: Controller,
    request: AlterConfigsRequest | IncrementalAlterConfigsRequest,
    asks: Sequence[Any],
    resources: Sequence[AlteredResource],
    response: type[AlterConfigsResponse] | type[IncrementalAlterConfigsResponse],
) -> list[AlterationResult] | None:
    """What the controller makes of some resources of a request; `asks` are the same as the request has them. None where
    this node controls by now. Raises `CoordinatorError`."""
    if not resources:
        return []
    kind = type(request)
    rest = kind(resources=list(asks), validate_only=request.validate_only)
    answer: Any = await controller.ask(rest, SETTINGS[kind], response, _is_refused)
    if answer is None:
        return None
    return [
        AlterationResult(resource, ErrorCode(one.error_code), one.error_message)
        for resource, one in zip(resources, answer.responses, strict=True)
    ]


def _is_refused(answer: Any) -> bool:
    """Whether who was asked is not the controller (any more): then nothing of it was done."""
    return all(one.error_code == ErrorCode.NOT_CONTROLLER for one in answer.responses)
