"""A whole node without sockets, in memory, and what a transactional client would say to it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from broker.api.api_families import load_handlers
from broker.api.context import ConnectionInfo, RequestContext
from broker.api.services import Services
from broker.config.broker_config import BrokerConfig
from broker.coordination.transaction_gate import ProduceBatch, admit_produce
from broker.disk.local_files import LocalFiles
from broker.node import Node
from broker.process.environment import RealEnvironment
from protocol.errors import ErrorCode
from protocol.messages.transactions import (
    EndTxnRequest,
    InitProducerIdRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from protocol.records.record import NewRecord, build_batch
from protocol.schema import schema_of

CONNECTION = ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1)


def in_a_node(story: Callable[[Services], Coroutine[Any, Any, None]], tmp_path: Any, **settings: str) -> None:
    """Run a story against a fresh node in memory with the topic `t` of two partitions."""

    async def run() -> None:
        values = {"tallystick.in.memory": "true", "num.partitions": "2"}
        files = LocalFiles(str(tmp_path))
        environment = RealEnvironment(files, sync_threads=1)
        node = Node(BrokerConfig(values | {key.replace("_", "."): text for key, text in settings.items()}), environment)
        services = await node.start()
        try:
            for topic in ("__transaction_state", "__consumer_offsets"):
                await services.topics.ensure_internal(topic)
            await services.topics.auto_create_all(["t"])
            await asyncio.wait_for(story(services), 20)
        finally:
            await node.stop()
            environment.close()
            files.close()

    asyncio.run(run())


async def ask(node: Services, request: Any, version: int) -> Any:
    key = schema_of(type(request)).api_key
    context = RequestContext(CONNECTION, key, version, 1, "test")
    answer = load_handlers()[key].handler(node, context, request)
    return await answer if isinstance(answer, Awaitable) else answer


async def init(node: Services, name: str = "tx", version: int = 4, **fields: Any) -> Any:
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000, **fields)
    return await ask(node, request, version)


async def end(node: Services, identity: Any, *, commit: bool, version: int = 5) -> Any:
    request = EndTxnRequest(
        transactional_id="tx",
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        committed=commit,
    )
    return await ask(node, request, version)


def batch(identity: Any, sequence: int = 0) -> memoryview:
    return memoryview(
        build_batch(
            [NewRecord(value=b"v", timestamp_ms=1)],
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=sequence,
            transactional=True,
        )
    )


async def produce(node: Services, identity: Any, *, version: int = 12, sequence: int = 0, index: int = 0) -> ErrorCode:
    """What the Produce handler does with one transactional batch."""
    partition = node.topics.partition("t", index)
    assert partition is not None
    records = batch(identity, sequence)
    (admission,) = await admit_produce(node, "tx", version, [ProduceBatch(partition, records)])
    if admission.error is ErrorCode.NONE:
        partition.append(
            records,
            transactional_id="tx",
            guard=admission.guard,
            verification=admission.verification,
            now_ms=node.environment.wall_ms(),
        )
    return admission.error


def partitions_of(node: Services) -> list[Any]:
    topic = node.topics.by_name("t")
    assert topic is not None
    return list(topic.partitions)


async def operators_abort(node: Services, identity: Any) -> ErrorCode:
    """WriteTxnMarkers from outside, for the first partition of `t`."""
    marker = WritableTxnMarker(
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        coordinator_epoch=0,
    )
    answer = await ask(node, WriteTxnMarkersRequest(markers=[marker]), 1)
    return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)
