"""A broker behind TLS where somebody may do one job and nothing else: for clients of any language.

One broker has a SASL_SSL listener with every mechanism, another one an SSL listener that wants certificates. Whoever
gets in is `User:ute`, however it was. A job has two topics that may be written and read, a group and a transactional
id; a third topic, another group and another transactional id are there for being refused.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.harness.certificates import Certificates
from tests.harness.confluent import read_all, values_of
from tests.harness.secure_broker import SCRAM, SecureBroker, sasl_settings, secure_broker
from tests.harness.token_issuer import TokenIssuer

ORDERS = [b"%d" % number for number in range(10)]
INVOICES = [b"invoice " + order for order in ORDERS]
"""What is written in a job that is done."""
USER, PASSWORD = "ute", "ute's, secret=1"
CERTIFICATE = "certificate"
MECHANISMS = ("PLAIN", *SCRAM, "OAUTHBEARER")
WAYS = (*MECHANISMS, CERTIFICATE)
"""How somebody is let in."""
_RIGHTS = {
    ResourceType.TOPIC: (AclOperation.READ, AclOperation.WRITE),
    ResourceType.GROUP: (AclOperation.READ,),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE,),
}
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
        acls = admin.create_acls(
            [
                AclBinding(
                    kind, of, ResourcePatternType.LITERAL, f"User:{USER}", "*", operation, AclPermissionType.ALLOW
                )
                for kind, operations in _RIGHTS.items()
                for of in named[kind]
                for operation in operations
            ]
        )
        for done in (*made.values(), *acls.values()):
            done.result(_SECONDS)
        return job


def guarded_place(folder: Path, protocol: str) -> Iterator[GuardedPlace]:
    """SASL_SSL or SSL; the broker ends with the fixture that this is for."""
    certificates = Certificates(folder / "certificates")
    certificates.issue(USER)
    issuer = TokenIssuer()
    prefix = "listener.name.secure."
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",  # on the open listener: whoever sets the stage
        "auto.create.topics.enable": "false",
    }
    if protocol == "SSL":
        settings |= certificates.settings(client_auth="required", prefix=prefix)
        settings[f"{prefix}ssl.principal.mapping.rules"] = "RULE:^CN=([a-z]*),.*$/$1/,DEFAULT"
    else:
        settings |= certificates.settings(prefix=prefix)
        settings |= sasl_settings({USER: PASSWORD}, "OAUTHBEARER") | issuer.settings(folder)
    broker = secure_broker(folder / "broker", settings, protocol)
    try:
        if protocol == "SASL_SSL":
            broker.add_users({USER: PASSWORD})
        yield GuardedPlace(broker, certificates, issuer)
    finally:
        broker.process.close()
