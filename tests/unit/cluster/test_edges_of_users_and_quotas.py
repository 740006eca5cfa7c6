"""Users, ACLs and quotas at the edges of their limits, and as many of a request as there is time for."""

import pytest

from coordinator.cluster.quota_alterations import AlteredQuotas, QuotaAlteration
from coordinator.cluster.quotas import Entity
from coordinator.cluster.scram import by_user
from protocol.acls import Acl, Operation, PatternType, Permission, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.sasl import ScramCredentialDeletion, ScramCredentialUpsertion
from protocol.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism
from tests.unit.cluster.cluster_rig import ClusterRig

ALICE: Entity = (("user", "alice"),)
ADDRESS: Entity = (("ip", "10.0.0.1"),)
EVERYBODY: Entity = (("ip", None),)
LARGEST_LONG = 9223372036854774784.0
"""Of those that a float64 can be."""


def altered(rig: ClusterRig, *alterations: QuotaAlteration, late: bool = False) -> list[AlteredQuotas]:
    times_named = {one.entity: 1 for one in alterations}
    results: list[AlteredQuotas] = rig.ask(
        lambda machine, ticket: machine.alter_client_quotas(ticket, alterations, times_named, spent=lambda: late)
    )
    return results


RATES = [
    (ALICE, "producer_byte_rate", LARGEST_LONG, None),
    (ALICE, "producer_byte_rate", 2.0**63, "Proposed value for producer_byte_rate is too large for a LONG."),
    (ALICE, "consumer_byte_rate", 5.0000005, None),
    (ALICE, "consumer_byte_rate", 5.000002, "consumer_byte_rate cannot be a fractional value."),
    (ALICE, "request_percentage", 1e-9, None),
    (ALICE, "request_percentage", 1e300, None),
    (ALICE, "controller_mutation_rate", 0.0, "Quota controller_mutation_rate must be greater than 0"),
    (ADDRESS, "connection_creation_rate", 2147483647.0, None),
    (ADDRESS, "connection_creation_rate", 0.5, "connection_creation_rate cannot be a fractional value."),
    (ADDRESS, "request_percentage", 5.0, "Invalid configuration key request_percentage"),
    (EVERYBODY, "connection_creation_rate", 1.0, None),
]


@pytest.mark.parametrize(("entity", "key", "value", "message"), RATES)
def test_how_large_a_quota_may_be(entity: Entity, key: str, value: float, message: str | None) -> None:
    rig = ClusterRig()
    (result,) = altered(rig, QuotaAlteration(entity, ((key, value),)))
    error = ErrorCode.NONE if message is None else ErrorCode.INVALID_REQUEST
    assert result == AlteredQuotas(entity, error, message)
    assert dict(rig.machine.image.quotas.by_entity) == ({entity: {key: value}} if message is None else {})


def test_a_quota_that_is_taken_away_beside_others() -> None:
    rig = ClusterRig()
    first, second = ("producer_byte_rate", 5.0), ("consumer_byte_rate", 6.0)
    altered(rig, QuotaAlteration(ALICE, (first, second)))
    altered(rig, QuotaAlteration(ALICE, (("request_percentage", None), (first[0], None), (second[0], 7.0))))
    assert rig.machine.image.quotas.by_entity == {ALICE: {second[0]: 7.0}}


def test_quotas_change_as_far_as_there_is_time() -> None:
    rig = ClusterRig()
    both = [QuotaAlteration(one, (("producer_byte_rate", 5.0),)) for one in (ALICE, (("user", "bob"),))]
    assert altered(rig, *both, late=True) == [AlteredQuotas(ALICE)]
    assert list(rig.machine.image.quotas.by_entity) == [ALICE]
    assert len(altered(rig, *both)) == 2


def test_acls_go_as_far_as_there_is_time() -> None:
    rig = ClusterRig()
    acls = [
        Acl(ResourceType.TOPIC, name, PatternType.LITERAL, "User:a", "*", Operation.READ, Permission.ALLOW)
        for name in ("a", "b")
    ]
    rig.ask(lambda machine, ticket: machine.create_acls(ticket, acls, fresh_id=rig.fresh_id))
    first, second = rig.machine.image.acls.by_id
    gone = rig.ask(lambda machine, ticket: machine.remove_acls(ticket, [first, second], spent=lambda: True))
    assert gone == acls[:1] and list(rig.machine.image.acls.by_id) == [second]
    gone = rig.ask(lambda machine, ticket: machine.remove_acls(ticket, [first, second]))
    assert gone == [None, acls[1]] and not rig.machine.image.acls.ids


def upsert(name: str, iterations: int, mechanism: int = ScramMechanism.SHA_256) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"salted" * 6
    )


USERS = [
    ((upsert("a", MIN_ITERATIONS),), 0, None),
    ((upsert("a", MAX_ITERATIONS),), 0, None),
    ((upsert("a", MIN_ITERATIONS - 1),), 93, "Too few iterations"),
    ((upsert("a", MAX_ITERATIONS + 1),), 93, "Too many iterations"),
    ((upsert("", MIN_ITERATIONS),), 93, "Username must not be empty"),
    ((upsert("a", MIN_ITERATIONS, 0),), 33, "Unknown SCRAM mechanism"),
    ((ScramCredentialDeletion(name="a", mechanism=9),), 33, "Unknown SCRAM mechanism"),
    (
        (ScramCredentialDeletion(name="a", mechanism=1),),
        91,
        "Attempt to delete a user credential that does not exist",
    ),
    ((upsert("a", MIN_ITERATIONS),) * 2, 92, "A user credential cannot be altered twice in the same request"),
]


@pytest.mark.parametrize(("alterations", "code", "message"), USERS)
def test_what_is_told_of_a_user(
    alterations: tuple[ScramCredentialUpsertion, ...], code: int, message: str | None
) -> None:
    rig = ClusterRig()
    (result,) = rig.ask(lambda machine, ticket: machine.alter_scram_users(ticket, by_user(alterations)))
    assert (result.user, result.error_code, result.error_message) == (alterations[0].name, code, message)
    assert rig.machine.image.scram_users.names() == ([] if code else ["a"])
