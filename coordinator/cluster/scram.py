"""Users of SCRAM: what the metadata log says of them, and how it is changed and described (KIP-554).

A credential is what is kept of a password (`protocol.sasl.scram`); the password itself never gets here. Sentences and
their order as a running Kafka 4.3 gives them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from coordinator.cluster.records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from coordinator.cluster.topic_rules import Refused
from protocol.errors import ErrorCode
from protocol.messages.sasl import (
    AlterUserScramCredentialsResult,
    DescribeUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialInfo,
    ScramCredentialUpsertion,
)
from protocol.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential, ScramMechanism, credential

TWICE = "A user credential cannot be altered twice in the same request"
Alteration = ScramCredentialDeletion | ScramCredentialUpsertion


Kept = dict[tuple[str, ScramMechanism], ScramCredential]


class ScramUsers:
    """Credentials by name and mechanism. Only `replay` and `replay_removal` write them."""

    def __init__(self) -> None:
        self.kept: Kept = {}

    def names(self) -> list[str]:
        return list(dict.fromkeys(name for name, _ in self.kept))

    def replay(self, record: UserScramCredentialRecord) -> None:
        kept = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
        self.kept[record.name, ScramMechanism(record.mechanism)] = kept

    def replay_removal(self, record: RemoveUserScramCredentialRecord) -> None:
        del self.kept[record.name, ScramMechanism(record.mechanism)]


def records(kept: Kept) -> Iterator[UserScramCredentialRecord]:
    """What a snapshot says of them."""
    for (name, mechanism), one in kept.items():
        yield _record(name, mechanism, one)


def _record(name: str, mechanism: ScramMechanism, kept: ScramCredential) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism,
        salt=kept.salt,
        stored_key=kept.stored_key,
        server_key=kept.server_key,
        iterations=kept.iterations,
    )


@dataclass(frozen=True, slots=True)
class FirstUser:
    """A user that a cluster begins with (`--add-scram`)."""

    name: str
    mechanism: ScramMechanism
    kept: ScramCredential


def first_users(users: ScramUsers, wanted: Iterable[FirstUser]) -> list[UserScramCredentialRecord]:
    """Their records, if there are no users yet: one that was removed does not come back with the next start."""
    return [] if users.kept else [_record(one.name, one.mechanism, one.kept) for one in wanted]


@dataclass(frozen=True, slots=True)
class AlteredUser:
    """What a request wants of one user: one thing, or nothing is done."""

    name: str
    alterations: tuple[Alteration, ...]


def by_user(alterations: Iterable[Alteration]) -> list[AlteredUser]:
    """The users of a request, in its order."""
    found: dict[str, list[Alteration]] = {}
    for one in alterations:
        found.setdefault(one.name, []).append(one)
    return [AlteredUser(name, tuple(of_user)) for name, of_user in found.items()]


def alter(
    users: ScramUsers, altered: Sequence[AlteredUser], decided: list[object], spent: Callable[[], bool]
) -> list[AlterUserScramCredentialsResult]:
    """Decide users, each on its own: one at least, and as many as there is time for."""
    results: list[AlterUserScramCredentialsResult] = []
    for user in altered:
        result = AlterUserScramCredentialsResult(user=user.name)
        try:
            record = _altered(users, user.alterations[0])
            if len(user.alterations) > 1:
                raise Refused(ErrorCode.DUPLICATE_RESOURCE, TWICE)
            decided.append(record)
        except Refused as refused:
            result.error_code, result.error_message = refused.error, refused.message
        results.append(result)
        if spent():
            break
    return results


def _altered(users: ScramUsers, one: Alteration) -> UserScramCredentialRecord | RemoveUserScramCredentialRecord:
    if not one.name:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    try:
        mechanism = ScramMechanism(one.mechanism)
    except ValueError:
        raise Refused(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism") from None
    if isinstance(one, ScramCredentialDeletion):
        if (one.name, mechanism) not in users.kept:
            raise Refused(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        return RemoveUserScramCredentialRecord(name=one.name, mechanism=mechanism)
    if one.iterations < MIN_ITERATIONS:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if one.iterations > MAX_ITERATIONS:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return _record(one.name, mechanism, credential(mechanism, one.salted_password, one.salt, one.iterations))


def described(users: ScramUsers, name: str, times_named: int) -> DescribeUserScramCredentialsResult:
    """One user, as it is named in a request, or as it is found."""
    result = DescribeUserScramCredentialsResult(user=name, error_message="", credential_infos=[])
    if times_named > 1:
        result.error_code = ErrorCode.DUPLICATE_RESOURCE
        result.error_message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return result
    result.credential_infos = [
        ScramCredentialInfo(mechanism=mechanism, iterations=users.kept[name, mechanism].iterations)
        for mechanism in ScramMechanism
        if (name, mechanism) in users.kept
    ]
    if not result.credential_infos:
        result.error_code = ErrorCode.RESOURCE_NOT_FOUND
        result.error_message = f"Attempt to describe a user credential that does not exist: {name}"
    return result
