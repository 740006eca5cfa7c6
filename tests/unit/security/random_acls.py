"""ACLs drawn by a seed, and what a broker then lets `User:alice` do.

Told to a node of ours; `kafka_door` tells it to a real Apache Kafka and writes its decisions into
`kafka_decisions.json`.
"""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

from protocol.acls import OPERATIONS, Acl, Operation, PatternType, Permission, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.groups import DescribeGroupsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.transactions import InitProducerIdRequest
from tests.unit.security.api_answers import Door, find_coordinators
from tests.unit.security.door_rig import ALICE

RECORDED = Path(__file__).with_name("kafka_decisions.json")
SEEDS = range(80)
NAMES = ("a", "ab", "abc", "b", "ba", "hardcode")
HOSTS = ("127.0.0.1", "10.9.9.9", "*", "*", "*")
PRINCIPALS = (ALICE, ALICE, "User:*", "User:bob")


def drawn(seed: int) -> list[Acl]:
    """Up to twelve ACLs, each once."""
    rng = Random(seed)
    found: dict[Acl, None] = {}
    for _ in range(rng.randrange(13)):
        kind = rng.choice((ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP))
        pattern = rng.choice((PatternType.LITERAL, PatternType.PREFIXED))
        name = rng.choice((*NAMES, "*", "h")) if pattern is PatternType.LITERAL else rng.choice((*NAMES, "h"))
        operation = rng.choice((Operation.ALL, *OPERATIONS[kind]))
        permission = rng.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY))
        found[Acl(kind, name, pattern, rng.choice(PRINCIPALS), rng.choice(HOSTS), operation, permission)] = None
    return list(found)


async def decisions(door: Door, seed: int) -> dict[str, Any]:
    """By name, the operations that are allowed, as bits, or the error; and whether somebody without transactions gets
    a producer id (KIP-679)."""
    await door.replace_acls(drawn(seed))
    topics = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in NAMES],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    found: dict[str, Any] = {}
    for topic in (await door.ask(topics, 12, ALICE)).topics:
        denied = topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        found[f"topic {topic.name}"] = "denied" if denied else topic.topic_authorized_operations
    groups = DescribeGroupsRequest(groups=list(NAMES), include_authorized_operations=True)
    for group in (await door.ask(groups, 5, ALICE)).groups:
        denied = group.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        found[f"group {group.group_id}"] = "denied" if denied else group.authorized_operations
    init = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    for _ in range(100):  # the first block of producer ids may have to be fetched
        error = (await door.ask(init, 4, ALICE)).error_code
        if error != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            break
        await asyncio.sleep(0.02)
    found["a producer id"] = ErrorCode(error).name
    return found


async def all_decisions(door: Door) -> dict[str, Any]:
    await find_coordinators(door, ((0, name) for name in NAMES))
    return {str(seed): await decisions(door, seed) for seed in SEEDS}
