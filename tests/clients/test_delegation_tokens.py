"""Delegation tokens are refused, in the words of a Kafka that has none.

`TALLYSTICK_TEST_BROKER=apache-kafka` asks Apache Kafka.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from tallystick.client.connection import Connection
from tallystick.client.security import Credentials, Security
from tests.harness.certificates import Certificates
from tests.harness.secure_broker import SecureBroker, sasl_settings, secure_broker

NOT_ALLOWED, DISABLED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
VERSIONS = {38: range(1, 4), 39: range(1, 3), 40: range(1, 3), 41: range(1, 4)}
ANONYMOUS, UTE, OTHER, ALICE = ("User", "ANONYMOUS"), ("User", "ute"), ("User", "other"), ("User", "CN=alice,O=tests")


@dataclass(frozen=True, slots=True)
class Door:
    """A way in: how a client comes, who it is then, and what it is told of tokens."""

    bootstrap: str
    security: Security
    name: tuple[str, str]
    refusal: ErrorCode

    @property
    def time(self) -> int:
        return -1 if self.refusal is NOT_ALLOWED else 0

    def ask(self, *requests: tuple[Any, int]) -> list[Any]:
        async def asked() -> list[Any]:
            host, _, port = self.bootstrap.rpartition(":")
            connection = await Connection.connect(host, int(port), security=self.security)
            answers = [await connection.ask(request, version) for request, version in requests]
            connection.abort()
            return answers

        return asyncio.run(asked())

    def of_nothing(
        self,
        requester: tuple[str, str],
        owner: tuple[str, str] | None = None,
        *,
        error: ErrorCode | None = None,
        version: int = 3,
    ) -> CreateDelegationTokenResponse:
        """What there is to an answer without a token."""
        time = self.time if error is None else -1
        return CreateDelegationTokenResponse(
            error_code=self.refusal if error is None else error,
            principal_type=(owner or requester)[0],
            principal_name=(owner or requester)[1],
            token_requester_principal_type=requester[0] if version >= 3 else "",
            token_requester_principal_name=requester[1] if version >= 3 else "",
            issue_timestamp_ms=time,
            expiry_timestamp_ms=time,
            max_timestamp_ms=time,
        )


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Door]]:
    folder = tmp_path_factory.mktemp("tokens")
    certificates = Certificates(folder / "certificates")
    certificates.issue("alice")
    settings = certificates.settings(client_auth="requested", prefix="listener.name.secure.")
    encrypted = secure_broker(folder / "encrypted", settings, "SSL")
    guarded = secure_broker(folder / "guarded", sasl_settings({"ute": "secret"}))
    try:
        yield _doors(encrypted, guarded, certificates)
    finally:
        encrypted.process.close()
        guarded.process.close()


def _doors(encrypted: SecureBroker, guarded: SecureBroker, certificates: Certificates) -> dict[str, Door]:
    known = Security(credentials=Credentials("PLAIN", "ute", "secret"))
    shown = [Security(tls=certificates.client_context(name)) for name in (None, "alice")]
    return {
        "PLAINTEXT": Door(guarded.open_bootstrap, Security(), ANONYMOUS, NOT_ALLOWED),
        "SSL without a certificate": Door(encrypted.bootstrap, shown[0], ANONYMOUS, NOT_ALLOWED),
        "SSL with one": Door(encrypted.bootstrap, shown[1], ALICE, DISABLED),
        "SASL": Door(guarded.bootstrap, known, UTE, DISABLED),
    }


@pytest.fixture(params=["PLAINTEXT", "SSL without a certificate", "SSL with one", "SASL"])
def door(request: pytest.FixtureRequest, doors: dict[str, Door]) -> Door:
    return doors[request.param]


def test_the_four_are_listed(door: Door) -> None:
    async def listed() -> dict[int, range]:
        host, _, port = door.bootstrap.rpartition(":")
        connection = await Connection.connect(host, int(port), security=door.security)
        connection.abort()
        return {key: versions for key, versions in connection.versions.items() if key in VERSIONS}

    assert asyncio.run(listed()) == VERSIONS


def test_each_is_refused_in_each_version(door: Door) -> None:
    making = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
    made = [door.of_nothing(door.name, version=version) for version in (1, 2, 3)]
    assert door.ask(*((making, version) for version in (1, 2, 3))) == made
    renewing = RenewDelegationTokenRequest(hmac=b"xy", renew_period_ms=5)
    renewed = RenewDelegationTokenResponse(error_code=door.refusal, expiry_timestamp_ms=door.time)
    assert door.ask((renewing, 1), (renewing, 2)) == [renewed, renewed]
    expiring = ExpireDelegationTokenRequest(hmac=b"", expiry_time_period_ms=-1)
    expired = ExpireDelegationTokenResponse(error_code=door.refusal, expiry_timestamp_ms=door.time)
    assert door.ask((expiring, 1), (expiring, 2)) == [expired, expired]
    owners = [[], [DescribeDelegationTokenOwner(principal_type="Group", principal_name="x")], None]
    for some in owners:
        asking = DescribeDelegationTokenRequest(owners=some)
        answers = door.ask(*((asking, version) for version in (1, 2, 3)))
        assert answers == [DescribeDelegationTokenResponse(error_code=door.refusal, tokens=[])] * 3


@pytest.mark.parametrize("owner", [OTHER, ("Group", "x"), ("User", ""), ("", ""), ("User", None)])
def test_of_other_owners_it_is_said_whose_token_it_would_be(door: Door, owner: tuple[str, str | None]) -> None:
    making = CreateDelegationTokenRequest(
        owner_principal_type=owner[0], owner_principal_name=owner[1], renewers=[], max_lifetime_ms=-1
    )
    meant = (owner[0], owner[1]) if owner[1] else None
    assert door.ask((making, 3)) == [door.of_nothing(door.name, meant)]


@pytest.mark.parametrize("kind", ["User", "Group", ""])
def test_who_renews_is_a_user(door: Door, kind: str) -> None:
    renewers = [CreatableRenewers(principal_type=one, principal_name="g") for one in ("User", kind)]
    is_wrong = kind != "User" and door.refusal is DISABLED
    error = ErrorCode.INVALID_PRINCIPAL_TYPE if is_wrong else None
    making = CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=1000)
    assert door.ask((making, 3)) == [door.of_nothing(door.name, error=error)]
