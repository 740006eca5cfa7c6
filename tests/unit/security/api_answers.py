"""What each API answers whom: who has no rights, who has wrong ones, who has one of the right ones, who has all.

Played to a node of ours; `kafka_door` plays it to a real Apache Kafka and writes its answers into `kafka_answers.json`.
Of an answer counts what permissions decide: error codes, which names are in it, and what is said to be allowed.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from broker.api.api_families import load_handlers
from broker.api.permissions.need import Need
from protocol.acls import CLUSTER_NAME, OPERATIONS, Acl, Operation, PatternType, Permission, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.groups import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    InitProducerIdRequest,
)
from protocol.schema import fields_of
from tests.unit.security.api_cases import CASES
from tests.unit.security.api_requests import committing
from tests.unit.security.case import Case
from tests.unit.security.door_rig import ALICE, ROOT

RECORDED = Path(__file__).with_name("kafka_answers.json")
NAMES = ("name", "topic", "group_id", "transactional_id", "key", "resource_name", "user")
TOLD = ("authorized_operations", "topic_authorized_operations", "cluster_authorized_operations")
CODES = ("error_code", "partition_error_code", "topic_config_error_code")
AUTHORIZATION = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
NOT_ABOUT_PERMISSIONS = (
    "active_producers", "api_keys", "brokers", "configs", "finalized_features", "supported_features",
)  # fmt: skip
DUMP = re.compile(r"Request Request\(.*\) needs [A-Z_]+ permission\.", re.DOTALL)
"""Kafka tells who lacks a right of the cluster what its request looks like in its memory."""
IMPLY = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}

TRIES = 1000
Answers = dict[str, dict[str, Any]]
"""Case → what the asker has → what counts of the answer."""


class Door(Protocol):
    """A broker with ACLs, in which `User:root` may do everything."""

    async def ask(self, request: Any, version: int, who: str) -> Any:
        """What this principal is answered."""

    async def replace_acls(self, acls: Iterable[Acl]) -> None:
        """Take away all ACLs, and make these. They are in force on return."""


def is_message(value: Any) -> bool:
    return type(value).__module__.startswith("protocol.messages.")


def told(answer: Any) -> Any:
    """What counts, as JSON: lists in order of what is in them."""
    if is_message(answer):
        found: dict[str, Any] = {}
        for field in fields_of(type(answer)):
            value = getattr(answer, field.name)
            if field.name in CODES:
                found[field.name] = ErrorCode(value).name
            elif (field.name in NAMES and value) or field.name in TOLD:
                found[field.name] = value
            elif isinstance(value, list) and field.name not in NOT_ABOUT_PERMISSIONS:
                parts = sorted(json.dumps(part, sort_keys=True) for part in map(told, value) if part)
                if field.name == "partitions":  # that there are many of the same kind is not about permissions
                    parts = sorted(set(parts))
                found[field.name] = [json.loads(part) for part in parts]
        if found.get("error_code") in {error.name for error in AUTHORIZATION}:
            message = getattr(answer, "error_message", None)
            found["message"] = message and DUMP.sub("Cluster authorization failed.", message)
        return found
    return None


def needs_of(case: Case) -> tuple[Need, ...]:
    request = type(case.make(bytes(16)))
    return next(entry for entry in load_handlers().values() if entry.request is request).guard.needs


def right(need: Need) -> Acl:
    name = CLUSTER_NAME if need.resource is ResourceType.CLUSTER else "*"
    return Acl(need.resource, name, PatternType.LITERAL, ALICE, "*", need.operation, Permission.ALLOW)


def wrong_rights(needs: tuple[Need, ...]) -> list[Acl]:
    """Everything else that there is to do with the same resources."""
    wrong: list[Acl] = []
    for kind in dict.fromkeys(need.resource for need in needs):
        needed = {need.operation for need in needs if need.resource is kind}
        needed |= {one for operation in needed for one in IMPLY.get(operation, ())}
        wrong += [right(Need(one, kind, None)) for one in OPERATIONS[kind] if one not in needed]
    return wrong


def grants(case: Case) -> Iterator[tuple[str, list[Acl]]]:
    needs = list(dict.fromkeys((need.operation, need.resource) for need in needs_of(case)))
    rights = [right(Need(operation, resource, None)) for operation, resource in needs]
    yield "nothing", []
    yield "everything else", wrong_rights(needs_of(case))
    if len(rights) > 1:
        for (operation, resource), one in zip(needs, rights, strict=True):
            yield f"{operation.name} of {resource.name}", [one]
    if rights:
        yield "all it needs", rights


async def answers(door: Door, cases: Iterable[Case] = CASES) -> Answers:
    found: Answers = {}
    for case in cases:
        for name, acls in grants(case):
            topic_id = await prepared(door)
            await door.replace_acls(acls)
            answer = await door.ask(case.make(topic_id), case.version, ALICE)
            found.setdefault(case.name, {})[name] = told(answer)
    return found


async def prepared(door: Door) -> bytes:
    """The topic, an offset of the group, the transactional id `x`, and `y` with an open transaction. Returns the id of
    the topic."""
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    await door.ask(CreateTopicsRequest(topics=[topic]), 7, ROOT)
    await find_coordinators(door, ((0, "g"), (1, "x")))
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
    described = await until_good(door, wanted, 12, lambda answer: answer.topics[0])
    committed = committing(9, bytes(16))
    committed.topics = [topic for topic in committed.topics if topic.name == "t"]
    await until_good(door, committed, 9, lambda answer: answer.topics[0].partitions[0])
    for transactional_id in ("x", "y"):
        init = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        identity = await until_good(door, init, 2, lambda answer: answer)
    begin = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="y",
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
    )
    await door.ask(begin, 3, ROOT)
    return bytes(described.topic_id)


async def find_coordinators(door: Door, keys: Iterable[tuple[int, str]]) -> None:
    """Have these groups (0) and transactional ids (1) looked after by somebody."""
    for kind, key in keys:
        finding = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        await until_good(door, finding, 4, lambda answer: answer.coordinators[0])


async def until_good(door: Door, request: Any, version: int, part: Callable[[Any], Any], who: str = ROOT) -> Any:
    """The part of the answer that has an error code, once there is none in it: the broker has just begun."""
    for _ in range(TRIES):
        found = part(await door.ask(request, version, who))
        if not found.error_code:
            return found
        await asyncio.sleep(0.02)
    raise AssertionError(f"{request} is answered {found}")
