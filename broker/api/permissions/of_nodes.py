"""Whether it is another node of the cluster that asks, as far as quotas and the journal have to know.

It says so by its client id, comes by the listener that nodes use among each other, and may do what only nodes do. Where
there is no authorizer everybody may; but then everybody may change quotas, too.
"""

from typing import Protocol

from broker.api.context import RequestContext
from broker.api.permissions.need import Need, Permissions, WithAuthorizer
from broker.api.services import WithConfig, WithNodes
from broker.peers.listener import between_nodes, client_id_of, is_called_as_nodes_are
from protocol.acls import Operation, ResourceType

WHAT_NODES_DO = Need(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, None)


class NodeServices(WithAuthorizer, WithConfig, WithNodes, Protocol):
    """What is used of the node."""


def is_a_node(services: NodeServices, context: RequestContext) -> bool:
    """See the head of this file. One that serves, as far as is known here: an application may be called `node-7`."""
    if not comes_as_a_node(services, context):
        return False
    serving = services.nodes.reached(context.connection.listener)
    return context.client_id in {client_id_of(one.node_id) for one in serving}


def comes_as_a_node(services: NodeServices, context: RequestContext) -> bool:
    """The same of a node that this one may not have heard of yet, or for dead: it has just been started, and this one
    does not follow the metadata at the moment. What it was sent for does not wait for that."""
    if services.nodes.is_alone or not is_called_as_nodes_are(context.client_id):
        return False
    if context.connection.listener != between_nodes(services.config):
        return False
    authorizer = services.authorizer
    return authorizer is None or Permissions(authorizer, context, "").have(WHAT_NODES_DO, quietly=True)
