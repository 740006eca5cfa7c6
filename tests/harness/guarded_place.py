"""A broker behind TLS where somebody may do one job and nothing else: for clients of any language.

One broker has a SASL_SSL listener with every mechanism, another one an SSL listener that wants certificates, a third
one both (KIP-684): there the certificate is of somebody who may do nothing. Whoever gets in is `User:ute`, however it
was. A job has two topics that may be written and read, a group and a transactional id; a third topic, another group and
another transactional id are there for being refused.
"""

import itertools
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.harness.broker import KAFKA
from tests.harness.certificates import Certificates
from tests.harness.confluent import read_all, values_of, wait_until
from tests.harness.secure_broker import SCRAM, SecureBroker, sasl_settings, secure_broker
from tests.harness.token_issuer import TokenIssuer

ORDERS = [b"%d" % number for number in range(10)]
INVOICES = [b"invoice " + order for order in ORDERS]
"""What is written in a job that is done."""
USER, PASSWORD = "ute", "ute's, secret=1"
SOMEBODY = "somebody"
CERTIFICATE, BOTH = "certificate", "certificate and SCRAM-SHA-512"
MECHANISMS = ("PLAIN", *SCRAM, "OAUTHBEARER")
WAYS = (*MECHANISMS, CERTIFICATE, BOTH)
"""How somebody is let in."""
_RIGHTS = {
    ResourceType.TOPIC: (AclOperation.READ, AclOperation.WRITE),
    ResourceType.GROUP: (AclOperation.READ,),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE,),
}
_ALL_ACLS = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)
_SECONDS = 30.0
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Job:
    """`name` is a group and a transactional id; `forbidden` is a topic, a group and a transactional id."""

    name: str
    orders: str
    invoices: str
    forbidden: str


@dataclass(frozen=True, slots=True)
class GuardedPlace:
    """A broker, who vouches for it, and who makes tokens for it."""

    broker: SecureBroker
    certificates: Certificates
    issuer: TokenIssuer

    def invoices(self, job: Job) -> list[bytes]:
        """Those that are committed, all of them."""
        return values_of(read_all(self.broker.open_bootstrap, job.invoices))

    def job(self) -> Job:
        """A new one, with its topics of one partition, and the rights that it needs."""
        name = f"job-{next(_numbers)}"
        job = Job(name, f"{name}-orders", f"{name}-invoices", f"{name}-forbidden")
        admin = AdminClient({"bootstrap.servers": self.broker.open_bootstrap})
        made = admin.create_topics([NewTopic(topic, 1, 1) for topic in (job.orders, job.invoices, job.forbidden)])
        named = {
            ResourceType.TOPIC: (job.orders, job.invoices),
            ResourceType.GROUP: (name,),
            ResourceType.TRANSACTIONAL_ID: (name,),
        }
        acls = [
            AclBinding(kind, of, ResourcePatternType.LITERAL, f"User:{USER}", "*", operation, AclPermissionType.ALLOW)
            for kind, operations in _RIGHTS.items()
            for of in named[kind]
            for operation in operations
        ]
        for done in (*made.values(), *admin.create_acls(acls).values()):
            done.result(_SECONDS)
        if KAFKA:  # There they are in force a moment after the answer.
            wait_until(lambda: set(acls) <= set(admin.describe_acls(_ALL_ACLS).result(_SECONDS)), "ACLs")
        return job


def mechanism_of(way: str) -> str | None:
    """Of SASL."""
    return {CERTIFICATE: None, BOTH: "SCRAM-SHA-512"}.get(way, way)


def shown_by(way: str) -> str | None:
    """Whose certificate is shown."""
    return {CERTIFICATE: USER, BOTH: SOMEBODY}.get(way)


class GuardedPlaces:
    """Those that were asked for, for as long as this is open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._places: dict[str, GuardedPlace] = {}

    def of(self, way: str) -> GuardedPlace:
        """Where somebody is let in in this way."""
        kind = way if way in (CERTIFICATE, BOTH) else "passwords"
        if kind not in self._places:
            place = self._places[kind] = _guarded_place(self._folder / kind.split()[-1], kind)
            if kind != CERTIFICATE:
                place.broker.add_users({USER: PASSWORD})
        return self._places[kind]

    def close(self) -> None:
        for place in self._places.values():
            place.broker.process.close()


def _guarded_place(folder: Path, kind: str) -> GuardedPlace:
    certificates = Certificates(folder / "certificates")
    certificates.issue(USER)
    certificates.issue(SOMEBODY)
    issuer = TokenIssuer()
    prefix = "listener.name.secure."
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",  # on the open listener: whoever sets the stage
        "auto.create.topics.enable": "false",
        f"{prefix}ssl.principal.mapping.rules": "RULE:^CN=([a-z]*),.*$/$1/,DEFAULT",
    }
    if kind == BOTH:
        settings |= certificates.pkcs12_settings(client_auth="required", prefix=prefix)
    else:
        settings |= certificates.settings(client_auth="required" if kind == CERTIFICATE else "none", prefix=prefix)
    if kind != CERTIFICATE:
        settings |= sasl_settings({USER: PASSWORD}, "OAUTHBEARER") | issuer.settings(folder)
    protocol = "SSL" if kind == CERTIFICATE else "SASL_SSL"
    return GuardedPlace(secure_broker(folder / "broker", settings, protocol), certificates, issuer)
