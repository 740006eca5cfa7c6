"""Quotas where a node passes on what its clients ask for: each client has its own, whichever node it asks."""

from typing import Any

import tallystick
from protocol.errors import ErrorCode
from protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    QuotaAlterationEntry,
    QuotaOperation,
)
from protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.harness.confluent import SECONDS
from tests.harness.together import answer_of

RATE = "controller_mutation_rate"


def of_each_client(address: str, **change: Any) -> None:
    entity = [AlteredQuotaEntity(entity_type="client-id", entity_name=None)]
    entry = QuotaAlterationEntry(entity=entity, ops=[QuotaOperation(key=RATE, **change)])
    (told,) = answer_of(address, AlterClientQuotasRequest(entries=[entry], validate_only=False), "operator").entries
    assert told.error_code == ErrorCode.NONE


def test_a_client_is_not_refused_for_what_others_have_had_made(nodes: tallystick.Broker) -> None:
    addresses, controller = nodes.node_addresses(), nodes.controller()
    address = next(one for node_id, one in addresses.items() if node_id != controller)
    of_each_client(address, value=0.5)
    try:
        told = []
        for number in range(8):
            topic = CreatableTopic(
                name=f"of-{number}", num_partitions=3, replication_factor=1, assignments=[], configs=[]
            )
            request = CreateTopicsRequest(topics=[topic], timeout_ms=int(SECONDS * 1000))
            told.append(answer_of(address, request, f"client-{number}").topics[0].error_code)
        assert told == [ErrorCode.NONE] * 8
    finally:
        of_each_client(address, remove=True)
