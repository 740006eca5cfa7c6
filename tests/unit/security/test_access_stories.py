"""What somebody may do who may not do everything: stories of several requests."""

import asyncio
import logging
from typing import Any

import pytest

from broker.api.catalogue import CloseConnection
from broker.api.services import Services
from protocol.acls import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.delegation_tokens import CreateDelegationTokenRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.groups import FindCoordinatorRequest, ListGroupsRequest
from protocol.messages.metadata import DescribeClusterRequest, MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest, DeleteTopicState
from protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    WriteTxnMarkersRequest,
)
from protocol.records.record import NewRecord, build_batch
from tests.unit.security.door_rig import ALICE, HOST, ROOT, OwnDoor, allow, ask, behind_the_door, grant, revoke
from tests.unit.transactions.node_rig import batch

READ, WRITE, DESCRIBE, CREATE = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.CREATE
TOPIC, ID, CLUSTER = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER
BOB, BOBS = "User:bob", ((ID, "b"), (TOPIC, "t"))
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
ID_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def make(node: Services, *names: str, who: str = ROOT) -> Any:
    wanted = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in names
    ]
    return (await ask(node, CreateTopicsRequest(topics=wanted), 7, who)).topics


async def produce(
    node: Services, *topics: str, records: memoryview | None = None, acks: int = -1, name: str | None = None, **who: Any
) -> dict[str, int]:
    """The error code of each topic."""
    plain = memoryview(build_batch([NewRecord(value=b"v", timestamp_ms=1)]))
    data = [PartitionProduceData(index=0, records=records or plain)]
    wanted = [TopicProduceData(name=topic, partition_data=list(data)) for topic in topics]
    request = ProduceRequest(transactional_id=name, acks=acks, timeout_ms=1000, topic_data=wanted)
    answer = await ask(node, request, 11, **({"who": ALICE} | who))
    return {topic.name: topic.partition_responses[0].error_code for topic in answer.responses}


def test_of_several_topics_those_are_written_that_may_be() -> None:
    async def story(node: Services) -> None:
        await make(node, "mine", "theirs")
        await grant(node, allow(WRITE, TOPIC, "mi", pattern=PatternType.PREFIXED))
        assert await produce(node, "theirs", "mine", "nowhere") == {
            "mine": ErrorCode.NONE,
            "theirs": TOPIC_DENIED,
            "nowhere": TOPIC_DENIED,
        }
        ends = {name: node.topics.partition(name, 0).end_offset for name in ("mine", "theirs")}  # type: ignore[union-attr]
        assert ends == {"mine": 1, "theirs": 0}
        with pytest.raises(CloseConnection, match="not allowed"):
            await produce(node, "theirs", "mine", acks=0)
        many = [f"nowhere{number}" for number in range(100)]
        assert await produce(node, "mine", *many) == {"mine": ErrorCode.NONE, **dict.fromkeys(many, TOPIC_DENIED)}
        assert set((await produce(node, *many)).values()) == {TOPIC_DENIED}

    behind_the_door(story)


def test_a_topic_that_is_named_by_its_id_is_judged_by_its_name() -> None:
    async def story(node: Services) -> None:
        made = {topic.name: topic.topic_id for topic in await make(node, "mine", "theirs")}
        await grant(node, allow(WRITE, TOPIC, "mine"))
        data = [PartitionProduceData(index=0, records=memoryview(build_batch([NewRecord(b"v", timestamp_ms=1)])))]
        for name, error in (("mine", ErrorCode.NONE), ("theirs", TOPIC_DENIED)):
            wanted = [TopicProduceData(topic_id=made[name], partition_data=data)]
            request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1000, topic_data=wanted)
            answer = await ask(node, request, 13, ALICE)
            assert [one.error_code for one in answer.responses[0].partition_responses] == [error]

    behind_the_door(story)


async def begin(node: Services, name: str, who: str) -> Any:
    """A transaction in partition 0 of topic t; whose it is."""
    finding = FindCoordinatorRequest(key_type=1, coordinator_keys=[name])
    assert (await ask(node, finding, 4, who)).coordinators[0].error_code == ErrorCode.NONE
    await node.transactions.wait_until_loaded()
    identity = await ask(node, InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 4, who)
    adding = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
    )
    added = (await ask(node, adding, 3, who)).results_by_topic_v3_and_below[0].results_by_partition[0]
    assert added.partition_error_code == ErrorCode.NONE
    return identity


def test_nobody_goes_on_with_the_transaction_of_somebody_else() -> None:
    """Bob may write to the topic, too, and under an id of his own. What he guesses is a small number."""

    async def story(node: Services) -> None:
        many = [f"t{number}" for number in range(70)]
        await make(node, "t", *many)
        await grant(node, allow(WRITE, ID, "x"), allow(WRITE, TOPIC, "t"))
        await grant(node, *(allow(WRITE, kind, name, BOB, pattern=PatternType.PREFIXED) for kind, name in BOBS))
        alices, bobs = await begin(node, "x", ALICE), await begin(node, "bob", BOB)
        assert await produce(node, "t", records=batch(alices), name="x") == {"t": ErrorCode.NONE}
        for name in ("bob", "bobs other"):
            for others in ([], many):
                anothers = await produce(node, "t", *others, records=batch(alices, 1), name=name, who=BOB)
                assert set(anothers.values()) == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        assert await produce(node, "t", records=batch(bobs), name="bob", who=BOB) == {"t": ErrorCode.NONE}
        assert await produce(node, "t", records=batch(alices, 1), name="x") == {"t": ErrorCode.NONE}
        assert node.topics.partition("t", 0).end_offset == 3  # type: ignore[union-attr]

    behind_the_door(story)


@pytest.mark.parametrize("kept", [True, False])
def test_an_acl_that_is_taken_away_in_the_middle_of_a_transaction(kept: bool) -> None:
    """Of the topic: nothing more is written, and the transaction can be ended. Of the transactional id: it cannot, and
    stays as it is for who comes next."""

    async def story(node: Services) -> None:
        await make(node, "t")
        write_id, write = allow(WRITE, ID, "x"), allow(WRITE, TOPIC, "t")
        await grant(node, write_id, write)
        identity = await begin(node, "x", ALICE)
        assert await produce(node, "t", records=batch(identity), name="x") == {"t": ErrorCode.NONE}
        await revoke(node, [write if kept else write_id])
        refused = await produce(node, "t", records=batch(identity, 1), name="x")
        assert refused == {"t": TOPIC_DENIED if kept else ID_DENIED}
        ending = EndTxnRequest(
            transactional_id="x",
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            committed=True,
        )
        assert (await ask(node, ending, 4, ALICE)).error_code == (ErrorCode.NONE if kept else ID_DENIED)
        if not kept:
            partition = node.topics.partition("t", 0)
            assert partition is not None and partition.last_stable_offset == 0
            await grant(node, write_id)
            assert (await ask(node, ending, 4, ALICE)).error_code == ErrorCode.NONE

    behind_the_door(story)


def test_a_fetch_session_is_asked_about_anew_each_time() -> None:
    async def story(node: Services) -> None:
        await make(node, "t", "u")
        await grant(node, allow(READ, TOPIC, "t"), allow(READ, TOPIC, "u"))
        session = {"id": 0, "epoch": 0}

        async def fetch(*topics: str) -> dict[str, tuple[int, bool]]:
            wanted = [
                FetchTopic(topic=name, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=99)])
                for name in topics
            ]
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                session_id=session["id"],
                session_epoch=session["epoch"],
                topics=wanted,
            )
            answer = await ask(node, request, 12, ALICE)
            session["id"], session["epoch"] = answer.session_id, session["epoch"] + 1
            return {
                topic.topic: (topic.partitions[0].error_code, bool(topic.partitions[0].records))
                for topic in answer.responses
            }

        assert await fetch("t", "u") == {"t": (0, False), "u": (0, False)}
        await produce(node, "t", "u", who=ROOT)
        await revoke(node, [allow(READ, TOPIC, "t")])
        assert await fetch() == {"t": (TOPIC_DENIED, False), "u": (0, True)}
        await grant(node, allow(READ, TOPIC, "t"))
        assert (await fetch())["t"] == (0, True)

    behind_the_door(story)


def test_a_fetch_that_waits_is_answered_by_the_acls_that_it_came_under() -> None:
    """As on Kafka: it was let in. The next one is not."""

    async def story(node: Services) -> None:
        await make(node, "t")
        await grant(node, allow(READ, TOPIC, "t"))

        async def fetch() -> tuple[int, bool]:
            wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=99)
            request = FetchRequest(
                max_wait_ms=600_000, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[wanted])]
            )
            found = (await ask(node, request, 12, ALICE)).responses[0].partitions[0]
            return found.error_code, bool(found.records)

        fetching = asyncio.ensure_future(fetch())
        await asyncio.sleep(0)
        await revoke(node)
        assert not fetching.done()
        await produce(node, "t", who=ROOT)
        assert await fetching == (0, True)
        assert await fetch() == (TOPIC_DENIED, False)

    behind_the_door(story)


def test_a_topic_is_made_by_who_asks_for_it_only_where_that_may_be() -> None:
    async def story(node: Services) -> None:
        async def look(name: str) -> int:
            wanted = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
            return int((await ask(node, wanted, 12, ALICE)).topics[0].error_code)

        await grant(node, allow(DESCRIBE, TOPIC, "*"))
        assert await look("fresh") == TOPIC_DENIED
        assert node.topics.by_name("fresh") is None
        await grant(node, allow(CREATE, TOPIC, "fresh"))
        assert await look("fresh") == ErrorCode.NONE
        assert await look("other") == TOPIC_DENIED
        await grant(node, allow(CREATE, CLUSTER, "kafka-cluster"))
        assert await look("other") == ErrorCode.NONE

    behind_the_door(story)


def test_of_what_is_not_looked_up_no_operations_are_told() -> None:
    """Neither a name nor an id; and ids in a version that has none."""

    async def story(node: Services) -> None:
        for version, topic in (
            (12, MetadataRequestTopic(name=None)),
            (10, MetadataRequestTopic(name="t", topic_id=b"1" * 16)),
        ):
            request = MetadataRequest(topics=[topic], include_topic_authorized_operations=True)
            (found,) = (await ask(node, request, version, ALICE)).topics
            assert (found.error_code, found.topic_authorized_operations) == (ErrorCode.INVALID_REQUEST, -(1 << 31))

    behind_the_door(story)


def test_how_a_topic_was_made_is_told_to_who_may_know() -> None:
    async def story(node: Services) -> None:
        await grant(node, allow(CREATE, TOPIC, "*"), allow(Operation.DESCRIBE_CONFIGS, TOPIC, "open"))
        hidden, shown = sorted(await make(node, "closed", "open", who=ALICE), key=lambda result: str(result.name))
        assert (hidden.error_code, hidden.num_partitions, hidden.configs) == (ErrorCode.NONE, -1, [])
        assert hidden.topic_config_error_code == TOPIC_DENIED
        assert (shown.num_partitions, bool(shown.configs), shown.topic_config_error_code) == (1, True, ErrorCode.NONE)

    behind_the_door(story)


def test_a_token_of_another_is_for_who_may_make_one() -> None:
    """KIP-373. There are none, but what is said differs."""

    async def story(node: Services) -> None:
        making = CreateDelegationTokenRequest(
            owner_principal_type="User", owner_principal_name="bob", renewers=[], max_lifetime_ms=-1
        )
        door = OwnDoor(node)
        refused = await door.ask(making, 3, ALICE)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        await grant(node, allow(Operation.CREATE_TOKENS, ResourceType.USER, BOB))
        assert (await door.ask(making, 3, ALICE)).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED

    behind_the_door(story)


def test_denials_hosts_and_resources_without_acls() -> None:
    async def story(node: Services) -> None:
        await make(node, "t", "free")
        assert await produce(node, "free", "t") == {"free": ErrorCode.NONE, "t": ErrorCode.NONE}
        await grant(node, allow(WRITE, TOPIC, "t", "User:*", host=HOST))
        assert await produce(node, "t") == {"t": ErrorCode.NONE}
        assert await produce(node, "t", host="10.0.0.2") == {"t": TOPIC_DENIED}
        await grant(node, allow(WRITE, TOPIC, "t", permission=Permission.DENY))
        assert await produce(node, "t") == {"t": TOPIC_DENIED}
        assert await produce(node, "t", who="User:bob") == {"t": ErrorCode.NONE}
        assert await produce(node, "t", who=ROOT) == {"t": ErrorCode.NONE}

    behind_the_door(story, settings={"allow.everyone.if.no.acl.found": "true"})


def test_an_id_is_needed_for_batches_of_a_transaction_alone() -> None:
    async def story(node: Services) -> None:
        await make(node, "t")
        await grant(node, allow(WRITE, TOPIC, "t"))
        assert await produce(node, "t", name="x") == {"t": ErrorCode.NONE}
        identity = InitProducerIdResponse(producer_id=1, producer_epoch=0)
        assert await produce(node, "t", name="x", records=batch(identity)) == {"t": ID_DENIED}

    behind_the_door(story)


def test_an_entry_of_a_deletion_that_names_no_topic_is_told_what_is_wrong_with_it() -> None:
    async def story(node: Services) -> None:
        await make(node, "t")
        nobodys = b"n" * 16
        entries = [
            DeleteTopicState(topic_id=nobodys),
            DeleteTopicState(),
            DeleteTopicState(name="t", topic_id=nobodys),
            DeleteTopicState(name="t"),
        ]
        answer = await ask(node, DeleteTopicsRequest(topics=entries, timeout_ms=1), 6, ALICE)
        assert [(one.name, one.topic_id, one.error_code) for one in answer.responses] == [
            (None, nobodys, ErrorCode.UNKNOWN_TOPIC_ID),
            (None, bytes(16), ErrorCode.INVALID_REQUEST),
            ("t", nobodys, ErrorCode.INVALID_REQUEST),
            ("t", bytes(16), TOPIC_DENIED),
        ]

    behind_the_door(story)


def test_decisions_are_in_a_log_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    async def story(node: Services) -> None:
        await make(node, "t", "u")
        await grant(node, allow(WRITE, TOPIC, "t"))
        caplog.clear()
        await produce(node, "t", "u")
        await ask(node, MetadataRequest(topics=None), 12, ALICE)
        await ask(node, ListGroupsRequest(), 4, ALICE)  # whatever it may see, it asked for nothing by name
        await ask(node, WriteTxnMarkersRequest(markers=[]), 1, ALICE)  # one of two rights is enough

    with caplog.at_level(logging.DEBUG, "tallystick.authorizer"):
        behind_the_door(story)
    told = [
        (record.levelname, record.getMessage(), record.__dict__["fields"])
        for record in caplog.records
        if record.name == "tallystick.authorizer"
    ]

    def line(operation: str, resource: str, request: str, rule: str) -> dict[str, str]:
        asked = {"operation": operation, "resource": resource, "request": request, "rule": rule}
        return {"principal": ALICE, "host": HOST} | asked

    assert told == [
        ("DEBUG", "allowed", line("WRITE", "TOPIC:t", "Produce", "an ACL allows it")),
        ("INFO", "denied", line("WRITE", "TOPIC:u", "Produce", "no ACL allows it")),
        ("DEBUG", "allowed", line("DESCRIBE", "TOPIC:t", "Metadata", "an ACL allows it")),
        ("INFO", "denied", line("CLUSTER_ACTION", "CLUSTER:kafka-cluster", "WriteTxnMarkers", "no ACL allows it")),
    ]


def test_what_one_may_do_is_told_without_a_line_for_what_one_may_not(caplog: pytest.LogCaptureFixture) -> None:
    async def story(node: Services) -> None:
        await make(node, "t")
        await grant(node, allow(WRITE, TOPIC, "t"), allow(DESCRIBE, CLUSTER, CLUSTER_NAME))
        caplog.clear()
        named = [MetadataRequestTopic(name="t")]
        wanted = MetadataRequest(topics=named, include_topic_authorized_operations=True)
        (found,) = (await ask(node, wanted, 12, ALICE)).topics
        assert found.topic_authorized_operations == 1 << WRITE | 1 << DESCRIBE
        cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
        assert (await ask(node, cluster, 1, ALICE)).cluster_authorized_operations == 1 << DESCRIBE
        idempotent = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
        assert (await ask(node, idempotent, 4, ALICE)).error_code == 0

    with caplog.at_level(logging.INFO, "tallystick.authorizer"):
        behind_the_door(story)
    assert [one.getMessage() for one in caplog.records if one.name == "tallystick.authorizer"] == []
