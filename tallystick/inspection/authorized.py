"""What the user of a client may do."""

from protocol.messages.metadata import DescribeClusterRequest, DescribeClusterResponse
from tallystick.client.client import Client
from tallystick.client.errors import check

_ALTER = 7
"""The number of the operation, which is its bit in an answer (KIP-430)."""


async def may_alter_cluster(client: Client) -> bool:
    """Whether ALTER of the cluster is allowed; whoever is asked for nothing may do everything."""
    answer: DescribeClusterResponse = await client.ask(
        DescribeClusterRequest(include_cluster_authorized_operations=True)
    )
    check(answer.error_code, answer.error_message)
    return bool(answer.cluster_authorized_operations & 1 << _ALTER)
