"""What a metadata log that takes nothing any more is asked for: each request is answered, each entry with its error."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

from broker.api.services import Services
from coordinator.runtime import ShardState
from protocol.acls import Operation, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest
from protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    QuotaAlterationEntry,
    QuotaOperation,
)
from protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
)
from protocol.messages.features import FeatureUpdateKey, UpdateFeaturesRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.sasl import AlterUserScramCredentialsRequest, ScramCredentialDeletion
from protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tallystick.client.acls import creation_of, described_by, filter_of
from tests.unit.cluster.cluster_rig import topic
from tests.unit.security.door_rig import EVERYTHING, allow, ask, behind_the_door

ACLS = [allow(Operation.READ, ResourceType.TOPIC, name) for name in ("t", "u")]
REFUSED = ErrorCode.NOT_COORDINATOR


def quotas_of(user: str) -> QuotaAlterationEntry:
    return QuotaAlterationEntry(
        entity=[AlteredQuotaEntity(entity_type="user", entity_name=user)],
        ops=[QuotaOperation(key="producer_byte_rate", value=1.0)],
    )


def settings_of(name: str) -> AlterConfigsRequestAlterConfigsResource:
    return AlterConfigsRequestAlterConfigsResource(
        resource_type=2,
        resource_name=name,
        configs=[AlterConfigsRequestAlterableConfig(name="retention.ms", value="5")],
    )


ASKED: list[tuple[Any, int, Callable[[Any], Any], Any]] = [
    (described_by(EVERYTHING), 3, lambda answer: (answer.error_code, answer.resources), (REFUSED, [])),
    (
        CreateAclsRequest(creations=[creation_of(acl) for acl in ACLS]),
        3,
        lambda answer: [one.error_code for one in answer.results],
        [REFUSED, REFUSED],
    ),
    (
        DeleteAclsRequest(filters=[filter_of(ACLS[0]), filter_of(ACLS[1]), EVERYTHING]),
        3,
        lambda answer: [(one.error_code, one.matching_acls) for one in answer.filter_results],
        [(REFUSED, []), (0, []), (REFUSED, [])],
    ),
    (
        AlterClientQuotasRequest(entries=[quotas_of("a"), quotas_of("b")], validate_only=False),
        1,
        lambda answer: [(one.error_code, one.entity[0].entity_name) for one in answer.entries],
        [(REFUSED, "a"), (REFUSED, "b")],
    ),
    (
        AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name=name, mechanism=1) for name in ("a", "b")], upsertions=[]
        ),
        0,
        lambda answer: [(one.user, one.error_code, one.error_message) for one in answer.results],
        [("a", REFUSED, None), ("b", REFUSED, None)],
    ),
    (
        UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature="transaction.version", max_version_level=1)]),
        1,
        lambda answer: answer.error_code,
        REFUSED,
    ),
    (
        AlterConfigsRequest(resources=[settings_of("here"), settings_of("gone")], validate_only=False),
        1,
        lambda answer: [(one.resource_name, one.error_code) for one in answer.responses],
        [("here", REFUSED), ("gone", REFUSED)],
    ),
    (
        CreateTopicsRequest(topics=[topic("new", 1), topic("other", 1)]),
        7,
        lambda answer: [(one.name, one.error_code) for one in answer.topics],
        [("new", REFUSED), ("other", REFUSED)],
    ),
    (
        DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in ("here", "gone")], timeout_ms=1),
        6,
        lambda answer: [(one.name, one.error_code) for one in answer.responses],
        [("here", REFUSED), ("gone", REFUSED)],
    ),
    (
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="here", count=9, assignments=None)], timeout_ms=1, validate_only=False
        ),
        3,
        lambda answer: [(one.name, one.error_code) for one in answer.results],
        [("here", REFUSED)],
    ),
    (
        MetadataRequest(topics=[MetadataRequestTopic(name="new"), MetadataRequestTopic(name="here")]),
        9,
        lambda answer: sorted((one.name, one.error_code) for one in answer.topics),
        [("here", 0), ("new", REFUSED)],
    ),
]


@pytest.mark.parametrize(
    ("request_", "version", "told", "expected"), ASKED, ids=[type(one[0]).__name__ for one in ASKED]
)
def test_each_entry_is_told(request_: Any, version: int, told: Callable[[Any], Any], expected: Any) -> None:
    async def story(node: Services) -> None:
        assert not (await ask(node, CreateTopicsRequest(topics=[topic("here", 1)]), 7)).topics[0].error_code
        creations = [creation_of(ACLS[0])]
        assert not (await ask(node, CreateAclsRequest(creations=creations), 3)).results[0].error_code
        end = node.cluster.partition.end_offset
        node.cluster.shard.close()
        assert told(await ask(node, request_, version)) == expected
        assert node.cluster.partition.end_offset == end

    behind_the_door(story)


def test_a_log_that_cannot_be_closed_takes_no_more_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: Services) -> None:
        def refuse() -> None:
            raise OSError(errno.EIO, "the disk is sick")

        with monkeypatch.context() as patched:
            patched.setattr(node.cluster.partition, "close", refuse)
            with pytest.raises(OSError):
                node.cluster.close()
        assert node.cluster.shard.state is ShardState.CLOSED

    behind_the_door(story)


def test_no_snapshot_is_due_of_a_closed_log() -> None:
    async def story(node: Services) -> None:
        assert node.topics.snapshots.is_due()
        node.cluster.shard.close()
        assert node.cluster.image.record_bytes > 0 and not node.topics.snapshots.is_due()

    behind_the_door(story, settings={"metadata.log.max.record.bytes.between.snapshots": "1"})
