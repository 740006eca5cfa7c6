"""Users of SCRAM in the metadata log: made, changed, removed, described, and in snapshots (KIP-554)."""

import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path

from broker.api.services import Services
from broker.coordination.cluster import Beginning
from coordinator.cluster.coordinator import Registration
from coordinator.cluster.scram import by_user
from coordinator.cluster.snapshot import freeze, snapshot_batches
from coordinator.cluster.topic_rules import MOST_RECORDS_PER_REQUEST
from protocol.errors import ErrorCode
from protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    ScramUserName,
)
from protocol.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential, ScramMechanism
from tests.unit.cluster.cluster_rig import ClusterRig, handle, image_of, with_node

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
SALT, SALTED = b"some salt", b"a salted password that is 32 long"


def upsert(name: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=SALTED
    )


def delete(name: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(rig: ClusterRig, *alterations: ScramCredentialDeletion | ScramCredentialUpsertion) -> list[tuple[str, int]]:
    results = rig.ask(lambda machine, ticket: machine.alter_scram_users(ticket, by_user(alterations)))
    return [(one.user, one.error_code) for one in results]


def kept(rig: ClusterRig) -> list[tuple[str, int, int]]:
    users = rig.machine.image.scram_users.kept
    return [(name, int(mechanism), users[name, mechanism].iterations) for name, mechanism in users]


def test_what_is_kept_follows_from_the_salted_password_and_is_in_the_log() -> None:
    rig = ClusterRig()
    assert alter(rig, upsert("alice"), upsert("bob", SHA_512, 8192)) == [("alice", 0), ("bob", 0)]
    client_key = hmac.digest(SALTED, b"Client Key", "sha256")
    assert rig.machine.image.scram_users.kept["alice", SHA_256] == ScramCredential(
        SALT, hashlib.sha256(client_key).digest(), hmac.digest(SALTED, b"Server Key", "sha256"), 4096
    )
    assert alter(rig, delete("bob", SHA_512), upsert("alice", iterations=5000)) == [("bob", 0), ("alice", 0)]
    assert kept(rig) == kept(rig.reloaded()) == [("alice", 1, 5000)]
    assert image_of(rig.reloaded().machine) == image_of(rig.machine)


def test_the_secrets_of_a_credential_are_in_no_text() -> None:
    shown = repr(ScramCredential(b"salt", b"stored", b"server", 4096))
    assert shown == "ScramCredential(iterations=4096)"


def test_a_request_names_a_user_once() -> None:
    """What is wrong with the first thing that it wants of a user is told before that there is a second."""
    rig = ClusterRig()
    alter(rig, upsert("alice"))
    refused: Sequence[tuple[object, ErrorCode]] = (
        ((delete("alice"), upsert("alice")), ErrorCode.DUPLICATE_RESOURCE),
        ((upsert("alice", SHA_512), upsert("alice", 3)), ErrorCode.DUPLICATE_RESOURCE),
        ((upsert("alice", 3), upsert("alice", SHA_512)), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ((delete("alice", SHA_512), delete("alice")), ErrorCode.RESOURCE_NOT_FOUND),
        ((upsert("alice", iterations=MIN_ITERATIONS - 1),), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ((upsert("alice", iterations=MAX_ITERATIONS + 1),), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    )
    for alterations, error in refused:
        assert alter(rig, *alterations, upsert("bob")) == [("alice", error), ("bob", 0)]  # type: ignore[misc]
    assert alter(rig, upsert("")) == [("", ErrorCode.UNACCEPTABLE_CREDENTIAL)]
    assert alter(rig, upsert("alice", SHA_512)) == [("alice", 0)]
    assert kept(rig) == [("alice", 1, 4096), ("bob", 1, 4096), ("alice", 2, 4096)]


def test_a_request_is_worked_on_in_slices() -> None:
    rig = ClusterRig()
    users = by_user([upsert("alice"), upsert("bob")])
    results = rig.ask(lambda machine, ticket: machine.alter_scram_users(ticket, users, lambda: True))
    assert [one.user for one in results] == ["alice"]
    assert kept(rig) == [("alice", 1, 4096)]


def test_a_snapshot_holds_the_users_as_they_were_when_it_began() -> None:
    rig = ClusterRig()
    rig.ask(lambda machine, ticket: machine.register(ticket, Registration(1, bytes(16), 0, None)))
    alter(rig, upsert("alice"), upsert("bob", SHA_512, 8192))
    frozen = freeze(rig.machine.image, ())
    alter(rig, delete("alice"))
    batches = list(snapshot_batches(frozen, 0))
    loaded = ClusterRig()
    for entry in Beginning(frozen.end_offset, 0, list(batches)).entries():
        loaded.machine.replay(entry)
    assert kept(loaded) == [("alice", 1, 4096), ("bob", 2, 8192)]
    assert kept(rig) == [("bob", 2, 8192)]


def test_users_are_described_and_survive_a_restart(tmp_path: Path) -> None:
    async def make(node: Services) -> None:
        for first in (upsert("alice"), upsert("alice", SHA_512, 5000)):
            request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[first, upsert("bob", SHA_512, 8192)])
            answer = await handle(node, request, 0)
        assert [(one.user, one.error_code, one.error_message) for one in answer.results] == [
            ("alice", 0, None),
            ("bob", 0, None),
        ]

    async def look(node: Services) -> None:
        for everybody in (None, []):
            answer = await handle(node, DescribeUserScramCredentialsRequest(users=everybody), 0)
            assert [
                (one.user, [(info.mechanism, info.iterations) for info in one.credential_infos])
                for one in answer.results
            ] == [("alice", [(1, 4096), (2, 5000)]), ("bob", [(2, 8192)])]
        names = [ScramUserName(name=name) for name in ("carol", "bob", "alice", "bob")]
        answer = await handle(node, DescribeUserScramCredentialsRequest(users=names), 0)
        assert [(one.user, one.error_code, one.error_message) for one in answer.results] == [
            (
                "carol",
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to describe a user credential that does not exist: carol",
            ),
            (
                "bob",
                ErrorCode.DUPLICATE_RESOURCE,
                "Cannot describe SCRAM credentials for the same user twice in a single request: bob",
            ),
            ("alice", 0, ""),
        ]

    with_node(make, folder=tmp_path)
    with_node(look, folder=tmp_path)


def test_a_request_of_more_records_than_kafka_writes_is_refused() -> None:
    async def story(node: Services) -> None:
        many = [upsert(f"u{number}") for number in range(MOST_RECORDS_PER_REQUEST + 1)]
        answer = await handle(node, AlterUserScramCredentialsRequest(deletions=[], upsertions=many), 0)
        assert {one.error_code for one in answer.results} == {ErrorCode.POLICY_VIOLATION}
        assert not node.cluster.image.scram_users.kept
        most = [delete(one.name) for one in many[1:]]
        answer = await handle(node, AlterUserScramCredentialsRequest(deletions=most, upsertions=[]), 0)
        assert {one.error_code for one in answer.results} == {ErrorCode.RESOURCE_NOT_FOUND}

    with_node(story)
