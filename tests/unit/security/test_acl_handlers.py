"""CreateAcls, DescribeAcls, DeleteAcls: what is written, found, refused, and in force when it is answered."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.api.api_families import load_handlers
from broker.api.context import ConnectionInfo
from broker.api.dispatch import Dispatcher
from broker.api.services import Services
from broker.coordination.coordinators import CoordinatorError
from broker.process.time_slice import TimeSlice
from coordinator.cluster.topic_rules import MOST_RECORDS_PER_REQUEST, TOO_LARGE
from protocol.acls import Acl, Operation, PatternType, Permission, ResourceType
from protocol.errors import ErrorCode
from protocol.framing import read_response
from protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from tallystick.client.acls import creation_of, described_by, filter_of
from tests.harness.framing import request_frame
from tests.unit.cluster.cluster_rig import with_node
from tests.unit.security.door_rig import (
    ALICE,
    HOST,
    allow,
    ask,
    behind_the_door,
    grant,
    revoke,
)

READ, WRITE = Operation.READ, Operation.WRITE
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


async def described(
    node: Services,
    kind: ResourceType = ResourceType.ANY,
    name: str | None = None,
    pattern: PatternType = PatternType.ANY,
    operation: Operation = Operation.ANY,
    **more: Any,
) -> set[tuple[str, str]]:
    """(pattern, principal) of what a filter means."""
    request = DescribeAclsRequest(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=more.get("principal"),
        host_filter=more.get("host"),
        operation=operation,
        permission_type=more.get("permission", Permission.ANY),
    )
    answer = await ask(node, request, 3)
    assert answer.error_code == ErrorCode.NONE
    return {
        (resource.resource_name + ("*" if resource.pattern_type == PREFIXED else ""), one.principal)
        for resource in answer.resources
        for one in resource.acls
    }


def test_filters_mean_what_they_say() -> None:
    async def story(node: Services) -> None:
        acls = (
            allow(READ, TOPIC, "orders"),
            allow(WRITE, TOPIC, "ord", pattern=PREFIXED, host=HOST),
            allow(READ, TOPIC, "*", "User:bob"),
            allow(READ, TOPIC, "other", permission=Permission.DENY),
            allow(READ, GROUP, "orders"),
        )
        assert await grant(node, *acls) == [0] * 5
        everything = {("orders", ALICE), ("ord*", ALICE), ("*", "User:bob"), ("other", ALICE)}
        assert await described(node) == everything
        assert await described(node, TOPIC, "orders", LITERAL) == {("orders", ALICE)}
        assert await described(node, TOPIC, "ord", PatternType.ANY) == {("ord*", ALICE)}
        assert await described(node, TOPIC, "orders", PatternType.MATCH) == everything - {("other", ALICE)}
        assert await described(node, principal="User:bob") == {("*", "User:bob")}
        assert await described(node, host=HOST) == {("ord*", ALICE)}
        assert await described(node, operation=WRITE) == {("ord*", ALICE)}
        assert await described(node, permission=Permission.DENY) == {("other", ALICE)}
        assert await described(node, GROUP, "nobody") == set()

    behind_the_door(story)


@pytest.mark.parametrize(
    ("acl", "problem"),
    [
        (Acl(CLUSTER, "other", LITERAL, ALICE, "*", READ, 3), "The only valid name for the CLUSTER resource is "),
        (Acl(TOPIC, "", LITERAL, ALICE, "*", READ, 3), "Invalid empty resource name"),
        (Acl(ResourceType.ANY, "t", LITERAL, ALICE, "*", READ, 3), "Invalid resourceType ANY"),
        (Acl(TOPIC, "t", PatternType.ANY, ALICE, "*", READ, 3), "Invalid patternType ANY"),
        (Acl(TOPIC, "t", PatternType.MATCH, ALICE, "*", READ, 3), "Invalid patternType MATCH"),
        (Acl(TOPIC, "t", LITERAL, ALICE, "*", Operation.ANY, 3), "Invalid operation ANY"),
        (Acl(TOPIC, "t", LITERAL, ALICE, "*", READ, Permission.ANY), "Invalid permissionType ANY"),
        (Acl(TOPIC, "t", LITERAL, "alice", "*", READ, 3), "Could not parse principal from `alice`"),
    ],
)
def test_what_cannot_be_written(acl: Acl, problem: str) -> None:
    async def story(node: Services) -> None:
        good = allow(READ, TOPIC, "beside")
        answer = await ask(node, CreateAclsRequest(creations=[creation_of(acl), creation_of(good)]), 3)
        assert [result.error_code for result in answer.results] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
        assert answer.results[0].error_message.startswith(problem)
        assert await described(node) == {("beside", ALICE)}

    behind_the_door(story)


def test_an_acl_is_there_once_and_goes_once() -> None:
    async def story(node: Services) -> None:
        one, other = allow(READ, TOPIC, "t"), allow(WRITE, TOPIC, "t", pattern=PREFIXED)
        end = node.cluster.partition.end_offset
        assert await grant(node, one, one) == [0, 0]
        assert await grant(node, one, other) == [0, 0]
        assert node.cluster.partition.end_offset == end + 2
        assert await revoke(node, [one, one, other]) == [1, 0, 1]
        assert await revoke(node) == [0]

    behind_the_door(story)


def test_what_the_metadata_refuses_is_the_error_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: Services) -> None:
        async def refuse(*_: Any) -> Any:
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

        monkeypatch.setattr(node.cluster, "ask_in_slices", refuse)
        acls = [allow(READ, TOPIC, name) for name in ("t", "u")]
        assert await grant(node, *acls) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2

    behind_the_door(story)


def test_an_answer_comes_when_the_acl_is_in_force_and_a_restart_finds_it(tmp_path: Path) -> None:
    many = [allow(READ, TOPIC, f"t{number}") for number in range(3000)]

    def may(node: Services, name: str) -> bool:
        assert node.authorizer is not None
        return node.authorizer.may(ALICE, HOST, READ, TOPIC, name)

    async def first(node: Services) -> None:
        assert not may(node, "t2999")
        assert set(await grant(node, *many)) == {0}
        assert all(may(node, acl.resource_name) for acl in many)
        assert await revoke(node, many[:2000]) == [1] * 2000
        assert not any(may(node, acl.resource_name) for acl in many[:2000]) and may(node, "t2000")

    async def second(node: Services) -> None:
        assert not may(node, "t1999") and may(node, "t2000")
        await node.topics.snapshots.take()

    async def third(node: Services) -> None:
        assert not may(node, "t1999") and may(node, "t2000")

    for life in (first, second, third):
        behind_the_door(life, folder=tmp_path)


def test_an_acl_is_in_force_when_it_is_durable_though_nobody_waits_for_it() -> None:
    """The client may be gone before it is answered."""

    async def story(node: Services) -> None:
        one = allow(READ, TOPIC, "t")
        for there in (True, False, True):
            if there:
                await node.cluster.ask(lambda machine, ticket: machine.create_acls(ticket, [one], fresh_id=fresh_id))
            else:
                await node.cluster.ask(lambda machine, ticket: machine.remove_acls(ticket, [fresh_id()]))
            assert node.authorizer is not None
            assert node.authorizer.may(ALICE, HOST, READ, TOPIC, "t") is there

    def fresh_id() -> bytes:
        return b"a" * 16

    behind_the_door(story)


def test_acls_come_into_force_one_at_least_in_each_turn() -> None:
    spent = cast(TimeSlice, SimpleNamespace(spent=lambda: True))
    acls = [allow(READ, TOPIC, name) for name in ("t", "u", "v")]

    async def story(node: Services) -> None:
        assert node.acls is not None and node.authorizer is not None
        in_turns: list[tuple[bool, list[bool]]] = []
        node.acls._has_turn = True  # nobody follows meanwhile
        await node.cluster.ask(
            lambda machine, ticket: machine.create_acls(
                ticket, acls, fresh_id=lambda: node.environment.random_bytes(16)
            )
        )
        for _ in range(4):
            whole = node.acls._take_over(spent)
            in_turns.append((whole, [node.authorizer.may(ALICE, HOST, READ, TOPIC, name) for name in "tuv"]))
        assert in_turns == [
            (False, [True, False, False]),
            (False, [True, True, False]),
            (True, [True, True, True]),
            (True, [True, True, True]),
        ]

    behind_the_door(story)


def test_without_an_authorizer_all_three_are_disabled() -> None:
    async def story(node: Services) -> None:
        assert await grant(node, allow(READ, TOPIC, "t")) == [ErrorCode.SECURITY_DISABLED]
        assert await revoke(node) == [0]

    with_node(story)


def test_without_an_authorizer_each_is_told_in_kafkas_words() -> None:
    """As `kafka-acls` prints them."""
    acl = allow(READ, TOPIC, "t")

    async def story(node: Services) -> None:
        shown = await over_the_wire(node, described_by(filter_of(acl)), 3)
        made = await over_the_wire(node, CreateAclsRequest(creations=[creation_of(acl)]), 3)
        gone = await over_the_wire(node, DeleteAclsRequest(filters=[filter_of(acl)]), 3)
        told = [(one.error_code, one.error_message) for one in (shown, made.results[0], gone.filter_results[0])]
        words = "No Authorizer is configured"
        disabled = ErrorCode.SECURITY_DISABLED
        assert told == [
            (disabled, f"{words} on the broker"),
            (disabled, f"{words} on the broker"),
            (disabled, f"{words}."),
        ]

    with_node(story)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_over_a_connection(version: int) -> None:
    """Frames are written and read as a client and the broker do."""
    acls = [allow(READ, TOPIC, "t"), allow(WRITE, GROUP, "g", pattern=PREFIXED, permission=Permission.DENY)]

    async def story(node: Services) -> None:
        made = await over_the_wire(node, CreateAclsRequest(creations=[creation_of(acl) for acl in acls]), version)
        assert [result.error_code for result in made.results] == [0, 0]
        filters = [filter_of(acl) for acl in acls]
        request = described_by(filters[1])
        (found,) = (await over_the_wire(node, request, version)).resources
        assert (found.resource_name, found.pattern_type, found.acls[0].permission_type) == ("g", PREFIXED, 2)
        gone = await over_the_wire(node, DeleteAclsRequest(filters=filters), version)
        assert [result.matching_acls[0].pattern_type for result in gone.filter_results] == [LITERAL, PREFIXED]
        assert (await over_the_wire(node, request, version)).resources == []

    behind_the_door(story)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("resource_type_filter", "Unknown patternFilter."),
        ("pattern_type_filter", "Unknown patternFilter."),
        ("operation", "Unknown entryFilter."),
        ("permission_type", "Unknown entryFilter."),
    ],
)
def test_a_filter_that_means_nothing_is_refused_and_the_next_one_holds(code: str, sentence: str) -> None:
    async def story(node: Services) -> None:
        acl = allow(READ, TOPIC, "t")
        await grant(node, acl)
        unknown = filter_of(acl)
        setattr(unknown, code, 99)
        answer = await ask(node, DeleteAclsRequest(filters=[unknown, filter_of(acl)]), 3)
        told = [
            (result.error_code, result.error_message, len(result.matching_acls)) for result in answer.filter_results
        ]
        assert told == [(ErrorCode.INVALID_REQUEST, sentence, 0), (ErrorCode.NONE, None, 1)]

    behind_the_door(story)


async def over_the_wire(node: Services, request: Any, version: int) -> Any:
    dispatcher = Dispatcher(node, load_handlers())
    connection = ConnectionInfo(1, "PLAINTEXT", HOST, 1, principal="User:root")
    call = dispatcher.read(connection, memoryview(request_frame(request, version, 7))[4:])
    answer = dispatcher.run(call)
    parts = call.encode(await answer)
    return read_response(call.entry.api_key, version, b"".join(bytes(part) for part in parts)[4:])[1]


def test_more_than_one_request_may_make() -> None:
    async def story(node: Services) -> None:
        creations = [creation_of(allow(READ, TOPIC, "t"))] * (MOST_RECORDS_PER_REQUEST + 1)
        results = (await ask(node, CreateAclsRequest(creations=creations), 3)).results
        assert len(results) == len(creations)
        assert {(one.error_code, one.error_message) for one in results} == {(ErrorCode.POLICY_VIOLATION, TOO_LARGE)}
        assert await described(node) == set()

    behind_the_door(story)
