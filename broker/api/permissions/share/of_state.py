"""What the APIs of the share coordinator need: brokers ask them, nobody else."""

from collections.abc import Callable
from typing import Any

from broker.api.permissions.need import Call, Guard, Need
from protocol.acls import Operation, ResourceType
from protocol.errors import ErrorCode

CLUSTER_ACTION = Need(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def brokers_only(refused: Callable[[Any, ErrorCode], Any]) -> Guard:
    """`refused` makes the answer to a request: an error for each of its partitions."""

    def answer(call: Call, request: Any) -> Any:
        if call.permissions.have(CLUSTER_ACTION):
            return call.handled(request)
        return refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    return Guard((CLUSTER_ACTION,), answer)
