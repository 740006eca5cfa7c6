"""What the user of a client may do."""

from uuid import uuid4

from protocol.errors import ErrorCode
from protocol.messages.metadata import DescribeClusterRequest, DescribeClusterResponse
from tallystick.client.client import Client
from tallystick.client.errors import KafkaError, check
from tallystick.inspection.transactions import described

_ALTER = 7
"""The number of the operation, which is its bit in an answer (KIP-430)."""


async def may_alter_cluster(client: Client) -> bool:
    """Whether ALTER of the cluster is allowed; whoever is asked for nothing may do everything."""
    answer: DescribeClusterResponse = await client.ask(
        DescribeClusterRequest(include_cluster_authorized_operations=True)
    )
    check(answer.error_code, answer.error_message)
    return bool(answer.cluster_authorized_operations & 1 << _ALTER)


async def may_see_every_transaction(client: Client) -> bool:
    """Whether nothing is left out of ListTransactions, which says nothing of ids that may not be described: asked with
    an id that nobody has, which is refused to whoever may describe only some."""
    try:
        await described(client, uuid4().hex)
    except KafkaError as refused:
        if refused.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return False
        raise
    return True
