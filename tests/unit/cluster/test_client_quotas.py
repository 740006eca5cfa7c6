"""AlterClientQuotas and DescribeClientQuotas: what may be set for whom, what is found, and what the log keeps."""

from typing import Any

import pytest

from broker.api.services import Services
from coordinator.cluster.quotas import entity_of
from coordinator.cluster.topic_rules import MOST_RECORDS_PER_REQUEST
from protocol.errors import ErrorCode
from protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    DescribeClientQuotasRequest,
    QuotaAlterationEntry,
    QuotaFilterComponent,
    QuotaOperation,
)
from tests.unit.cluster.cluster_rig import handle, with_node

INVALID, UNSUPPORTED = ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION
Pairs = tuple[tuple[str, str | None], ...]
ALICE: Pairs = (("user", "alice"),)
ANY_IP: Pairs = (("ip", None),)
EXACT, DEFAULT, SPECIFIED = 0, 1, 2


def entry(entity: Pairs, **ops: float | None) -> QuotaAlterationEntry:
    return QuotaAlterationEntry(
        entity=[AlteredQuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[QuotaOperation(key=key, value=value or 0.0, remove=value is None) for key, value in ops.items()],
    )


async def alter(node: Services, *entries: QuotaAlterationEntry, validate_only: bool = False) -> Any:
    answer = await handle(node, AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only), 1)
    return answer.entries


async def described(node: Services, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    request = DescribeClientQuotasRequest(
        components=[
            QuotaFilterComponent(entity_type=kind, match_type=how, match=name) for kind, how, name in components
        ],
        strict=strict,
    )
    answer = await handle(node, request, 1)
    if answer.error_code:
        assert answer.entries is None
        return answer.error_code, answer.error_message
    return {
        tuple((one.entity_type, one.entity_name) for one in found.entity): {one.key: one.value for one in found.values}
        for found in answer.entries
    }


@pytest.mark.parametrize(
    ("entity", "key", "value", "sentence"),
    [
        ((), "producer_byte_rate", 1, "Invalid empty client quota entity"),
        ((("group", "g"),), "producer_byte_rate", 1, "Unhandled client quota entity type: group"),
        ((("user", ""),), "producer_byte_rate", 1, "Empty user not supported"),
        ((("client-id", ""),), "producer_byte_rate", 1, "Empty client-id not supported"),
        (
            (("user", "u"), ("ip", "10.0.0.1")),
            "producer_byte_rate",
            1,
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
        (ALICE, "speed", 1, "Invalid configuration key speed"),
        (ALICE, "connection_creation_rate", 1, "Invalid configuration key connection_creation_rate"),
        ((("ip", None),), "producer_byte_rate", 1, "Invalid configuration key producer_byte_rate"),
        ((("ip", "nobody"),), "connection_creation_rate", 1, "nobody is not a valid IP or resolvable host."),
        (ALICE, "producer_byte_rate", 0, "Quota producer_byte_rate must be greater than 0"),
        (ALICE, "request_percentage", -1, "Quota request_percentage must be greater than 0"),
        (ALICE, "request_percentage", float("nan"), "Quota request_percentage must be greater than 0"),
        (ALICE, "producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value."),
        (ALICE, "consumer_byte_rate", 1e300, "Proposed value for consumer_byte_rate is too large for a LONG."),
        (
            (("ip", "::1"),),
            "connection_creation_rate",
            2147483648,
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
)
def test_what_is_refused_and_in_which_words(entity: Pairs, key: str, value: float, sentence: str) -> None:
    async def story(node: Services) -> None:
        (refused,) = await alter(node, entry(entity, **{key: value}))
        assert (refused.error_code, refused.error_message) == (INVALID, sentence)
        assert await described(node) == {}

    with_node(story)


def test_an_entity_changes_whole_or_not_at_all() -> None:
    async def story(node: Services) -> None:
        both = entry(ALICE, producer_byte_rate=1, consumer_byte_rate=-1)
        other = entry((("client-id", None),), controller_mutation_rate=0.5)
        refused, done = await alter(node, both, other)
        assert (refused.error_code, done.error_code, done.error_message) == (INVALID, 0, None)
        assert [(one.entity_type, one.entity_name) for one in done.entity] == [("client-id", None)]
        assert await described(node) == {(("client-id", None),): {"controller_mutation_rate": 0.5}}

    with_node(story)


def test_an_entity_that_is_named_twice_stays_as_it_is() -> None:
    async def story(node: Services) -> None:
        pair = (("user", None), ("client-id", "c"))
        (refused,) = await alter(
            node, entry(pair, producer_byte_rate=1), entry(tuple(reversed(pair)), producer_byte_rate=2)
        )
        assert refused.error_code == INVALID
        assert refused.error_message == "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=c, user=null})"
        twice = QuotaAlterationEntry(
            entity=entry(ALICE).entity, ops=[QuotaOperation(key="producer_byte_rate", value=n) for n in (1, 2)]
        )
        (refused,) = await alter(node, twice)
        assert refused.error_message == "Ignoring duplicate entity ClientQuotaEntity(entries={user=alice})"
        assert await described(node) == {}

    with_node(story)


def test_values_are_set_changed_and_taken_away() -> None:
    async def story(node: Services) -> None:
        assert (await alter(node, entry(ALICE, producer_byte_rate=None)))[0].error_code == 0
        end = node.cluster.partition.end_offset
        await alter(node, entry(ALICE, producer_byte_rate=5), validate_only=True)
        assert (await described(node), node.cluster.partition.end_offset) == ({}, end)
        await alter(node, entry(ALICE, producer_byte_rate=5, request_percentage=250.5))
        assert await described(node) == {ALICE: {"producer_byte_rate": 5.0, "request_percentage": 250.5}}
        end = node.cluster.partition.end_offset
        await alter(node, entry(ALICE, producer_byte_rate=5))
        assert node.cluster.partition.end_offset == end  # nothing is new
        await alter(node, entry(ALICE, producer_byte_rate=7, request_percentage=None))
        assert await described(node) == {ALICE: {"producer_byte_rate": 7.0}}
        await alter(node, entry(ALICE, producer_byte_rate=None))
        assert await described(node) == {}

    with_node(story)


EVERYBODY: tuple[Pairs, ...] = (
    (("user", "alice"),),
    (("user", None),),
    (("client-id", "c"),),
    (("client-id", None),),
    (("client-id", "c"), ("user", "alice")),
    (("client-id", None), ("user", "alice")),
    (("client-id", None), ("user", None)),
)


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ((), False, EVERYBODY),
        ((), True, ()),
        ((("user", EXACT, "alice"),), False, (EVERYBODY[0], EVERYBODY[4], EVERYBODY[5])),
        ((("user", EXACT, "alice"),), True, (EVERYBODY[0],)),
        ((("user", DEFAULT, None),), False, (EVERYBODY[1], EVERYBODY[6])),
        ((("user", SPECIFIED, None),), True, EVERYBODY[:2]),
        ((("user", SPECIFIED, None), ("client-id", EXACT, "c")), True, (EVERYBODY[4],)),
        ((("client-id", SPECIFIED, None),), False, EVERYBODY[2:]),
        ((("ip", SPECIFIED, None),), False, ()),
    ],
)
def test_a_filter_finds(components: Any, strict: bool, found: tuple[Pairs, ...]) -> None:
    async def story(node: Services) -> None:
        await alter(node, *(entry(one, producer_byte_rate=1) for one in EVERYBODY))
        assert set(await described(node, *components, strict=strict)) == set(found)

    with_node(story)


@pytest.mark.parametrize(
    ("components", "error", "sentence"),
    [
        ([("", EXACT, "x")], INVALID, "Invalid empty entity type."),
        ([("group", EXACT, "x")], UNSUPPORTED, "Unsupported entity type group"),
        (
            [("user", EXACT, "x"), ("user", DEFAULT, None)],
            INVALID,
            "Entity type user cannot appear more than once in the filter.",
        ),
        ([("user", EXACT, None)], INVALID, "Request specified MATCH_TYPE_EXACT, but set match string to null."),
        (
            [("user", DEFAULT, "x")],
            INVALID,
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            [("user", SPECIFIED, "x")],
            INVALID,
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        ([("user", 3, None)], INVALID, "Unknown match type 3"),
        (
            [("ip", SPECIFIED, None), ("client-id", SPECIFIED, None)],
            INVALID,
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component.",
        ),
    ],
)
def test_a_filter_that_makes_no_sense(components: Any, error: int, sentence: str) -> None:
    async def story(node: Services) -> None:
        assert await described(node, *components) == (error, sentence)

    with_node(story)


def test_quotas_outlive_a_restart_and_a_snapshot(tmp_path: Any) -> None:
    settings = {"metadata.log.max.record.bytes.between.snapshots": "1"}
    kept = {one: {"producer_byte_rate": 1.0} for one in EVERYBODY[1:]} | {
        (("ip", None),): {"connection_creation_rate": 9}
    }

    async def sets(node: Services) -> None:
        await alter(node, *(entry(one, producer_byte_rate=1) for one in EVERYBODY))
        await alter(
            node, entry(EVERYBODY[0], producer_byte_rate=None), entry((("ip", None),), connection_creation_rate=9)
        )
        await node.topics.snapshots.take()

    async def finds(node: Services) -> None:
        assert await described(node) == kept
        assert node.cluster.image.is_complete

    with_node(sets, folder=tmp_path, settings=settings)
    assert list(tmp_path.glob("__cluster_metadata-0/*.checkpoint"))
    with_node(finds, folder=tmp_path, settings=settings)


def test_windows_are_as_many_and_as_long_as_the_settings_say() -> None:
    settings = {
        "quota.window.num": "11",
        "quota.window.size.seconds": "2",
        "controller.quota.window.num": "5",
        "controller.quota.window.size.seconds": "3",
    }

    async def story(node: Services) -> None:
        await alter(node, entry((("user", "alice"),), producer_byte_rate=1_000_000, controller_mutation_rate=1))
        assert node.client_quotas.produce.most_at_once("alice", "c") == 20_000_000
        allowance = node.client_quotas.mutation.allowance("alice", "c")
        assert allowance is not None and (allowance.windows.count, allowance.windows.size_ms) == (5, 3000)

    with_node(story, settings=settings)


def test_a_request_has_a_size() -> None:
    async def story(node: Services) -> None:
        many = [entry((("user", str(n)),), producer_byte_rate=1) for n in range(MOST_RECORDS_PER_REQUEST // 2 + 1)]
        answers = await alter(node, *many)
        assert {one.error_code for one in answers} == {ErrorCode.POLICY_VIOLATION} and len(answers) == len(many)
        assert await described(node) == {}

    with_node(story)


def test_the_last_name_of_a_type_holds() -> None:
    assert entity_of([("user", "a"), ("client-id", "c"), ("user", None)]) == (("client-id", "c"), ("user", None))
