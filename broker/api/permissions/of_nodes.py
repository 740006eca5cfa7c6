"""Whether it is another node of the cluster that asks, as far as quotas and the journal have to know.

It says so by its client id, comes by the listener that nodes use among each other, and may do what only nodes do. Where
there is no authorizer everybody may; but then everybody may change quotas, too.
"""

from typing import Protocol

from broker.api.context import RequestContext
from broker.api.permissions.need import Need, Permissions, WithAuthorizer
from broker.api.services import WithConfig, WithNodes
from broker.peers.listener import CLIENT_ID, between_nodes, client_id_of
from protocol.acls import Operation, ResourceType

WHAT_NODES_DO = Need(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, None)


class NodeServices(WithAuthorizer, WithConfig, WithNodes, Protocol):
    """What is used of the node."""


def is_a_node(services: NodeServices, context: RequestContext) -> bool:
    """See the head of this file."""
    nodes, client_id, listener = services.nodes, context.client_id, context.connection.listener
    if nodes.is_alone or client_id is None or not client_id.startswith(CLIENT_ID):
        return False
    if client_id not in {client_id_of(one.node_id) for one in nodes.reached(listener)}:
        return False
    if listener != between_nodes(services.config):
        return False
    authorizer = services.authorizer
    return authorizer is None or Permissions(authorizer, context, "").have(WHAT_NODES_DO, quietly=True)
