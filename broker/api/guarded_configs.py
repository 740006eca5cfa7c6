"""Changes of settings that are tried out before they are made: those of one listener, whose key stores have to open.

Kafka does so too (`DynamicBrokerConfig.validate`): a certificate that cannot be read is refused to whoever sets it, and
is not found out by clients.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from broker.api.services import WithCluster, WithConfig, WithNodeId
from broker.security.tls.errors import BadTls
from coordinator.cluster.configs import AlterationResult, AlteredResource, alter, altered
from coordinator.cluster.image import BROKER_RESOURCE
from coordinator.cluster.keys.limit_keys import PER_ADDRESS
from coordinator.cluster.keys.listener_keys import LISTENER_PREFIX
from coordinator.cluster.topic_rules import Refused
from coordinator.cluster.topics import Decided, Rules
from protocol.errors import ErrorCode

Place = tuple[int, str]
"""Kind and name of a resource."""


class GuardedServices(WithCluster, WithConfig, WithNodeId, Protocol):
    """What is used of the node."""


async def refused_by_guards(
    services: GuardedServices, resources: Sequence[AlteredResource]
) -> dict[Place, AlterationResult]:
    """The resources that a guard refuses, with its reason. What is wrong in another way is not looked at here."""
    refused: dict[Place, AlterationResult] = {}
    for resource in resources:
        if not (services.config.guards and _concerns(services, resource)):
            continue
        before = services.cluster.image.broker_configs.get(resource.name, {})
        try:
            wanted = services.config.with_own(altered(before, resource, services.config.layers))
            for guard in services.config.guards:
                await guard(wanted)
        except Refused:
            continue
        except BadTls as problem:
            place, message = (resource.resource_type, resource.name), f"Invalid value for configuration: {problem}"
            refused[place] = AlterationResult(resource, ErrorCode.INVALID_REQUEST, message)
    return refused


def refused_to_asker(
    services: WithCluster, resources: Sequence[AlteredResource], rules: Rules, times_named: Mapping[Place, int]
) -> dict[Place, AlterationResult]:
    """What would shut out who asks for it is refused by the node that is asked: the controller sees this node."""
    limits = [
        one
        for one in resources
        if one.resource_type == BROKER_RESOURCE and any(change.name == PER_ADDRESS for change in one.alterations)
    ]
    results = alter(services.cluster.image, limits, rules, Decided(), times_named)
    refused = [one for one in results if one.error is not ErrorCode.NONE]
    return {(one.resource.resource_type, one.resource.name): one for one in refused}


async def put_in_force(services: GuardedServices, results: Sequence[AlterationResult]) -> None:
    """Tell the parts of the broker of settings that were set to what they are, and wait until what was changed holds:
    whoever takes an authority out of a trust store may rely on the answer."""
    made = [one.resource for one in results if one.error is ErrorCode.NONE and _concerns(services, one.resource)]
    if names := frozenset(one.name for resource in made for one in resource.alterations):
        services.config.said_again(names)
    for settled in services.config.settling if made else ():
        await settled()


def _concerns(services: GuardedServices, resource: AlteredResource) -> bool:
    is_ours = resource.resource_type == BROKER_RESOURCE and resource.name == str(services.node_id)
    return is_ours and (resource.replace or any(one.name.startswith(LISTENER_PREFIX) for one in resource.alterations))
