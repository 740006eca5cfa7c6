"""The identity of an idempotent producer without transactions (KIP-98): a `Lease` on no transactional id, for a
`Sender`. A broker knows a batch that is sent again by it. Nothing is fenced, and nothing is to be ended.
"""

from protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from tallystick.client.client import Client
from tallystick.client.lease import Lease, judge, persistently

NO_TRANSACTION = ""
"""No transactional id: brokers refuse it as one."""


async def take_identity(client: Client, *, patience_s: float) -> Lease:
    """A fresh producer id."""

    async def attempt() -> Lease:
        node = await client.any_node()
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
        answer: InitProducerIdResponse = await node.ask(request)
        judge(answer.error_code)
        return Lease(NO_TRANSACTION, answer.producer_id, answer.producer_epoch, implicit=True)

    return await persistently(client, attempt, patience_s=patience_s)
