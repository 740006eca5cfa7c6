"""A broker with a listener of its own for strangers, beside the open one: ours or Apache Kafka, with the same settings.

The open listener (PLAINTEXT) is there for whoever sets the stage: it makes users and topics.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tallystick.process import BrokerProcess
from tests.harness.apache_kafka import ApacheKafka
from tests.harness.broker import EXTERNAL, KAFKA, NODE_COUNT, TEST_SETTINGS, own
from tests.harness.proxy import free_port, free_ports

MODULES = "org.apache.kafka.common.security"
SCRAM = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}


@dataclass(frozen=True, slots=True)
class SecureBroker:
    """`bootstrap` is the guarded listener, `open_bootstrap` the other one."""

    process: BrokerProcess
    bootstrap: str
    open_bootstrap: str

    def add_users(self, users: Mapping[str, str], mechanisms: Mapping[str, ScramMechanism] = SCRAM) -> None:
        """Users of SCRAM with their passwords, for each of the mechanisms."""
        admin = AdminClient({"bootstrap.servers": self.open_bootstrap})
        for mechanism in mechanisms.values():  # a request names a user once
            wanted = [
                UserScramCredentialUpsertion(name, ScramCredentialInfo(mechanism, 4096), password.encode())
                for name, password in users.items()
            ]
            for done in admin.alter_user_scram_credentials(wanted).values():
                done.result()


def plain_users(users: Mapping[str, str]) -> str:
    """The JAAS line of PLAIN."""
    known = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    return f"{MODULES}.plain.PlainLoginModule required {known};"


def sasl_settings(plain: Mapping[str, str], *more: str) -> dict[str, str]:
    """PLAIN with these users, and both of SCRAM."""
    scram = f"{MODULES}.scram.ScramLoginModule required;"
    return {
        "listener.name.secure.sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM, *more)),
        "listener.name.secure.plain.sasl.jaas.config": plain_users(plain),
        **{f"listener.name.secure.{name.lower()}.sasl.jaas.config": scram for name in SCRAM},
    }


def secure_broker(
    folder: Path, settings: Mapping[str, str], protocol: str = "SASL_PLAINTEXT", *, kafka: bool = KAFKA
) -> SecureBroker:
    """Started; the guarded listener is called SECURE."""
    if EXTERNAL:
        pytest.skip("needs a broker of its own, TALLYSTICK_TEST_BOOTSTRAP names another")
    port, guarded = free_ports(NODE_COUNT), free_ports(NODE_COUNT)
    listeners = f"PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{guarded}"
    protocols = f"PLAINTEXT:PLAINTEXT,SECURE:{protocol}"
    settings = TEST_SETTINGS | dict(settings)
    process: BrokerProcess
    if kafka:
        controller = free_port()
        settings |= {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
            "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        }
        process = ApacheKafka(folder, settings=settings, heap="512m", port=port)
    else:
        settings |= {"listener.security.protocol.map": protocols}
        options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        process = own(folder, options, listeners=listeners)
    process.start()
    last = NODE_COUNT - 1
    return SecureBroker(process, f"127.0.0.1:{guarded + last}", f"127.0.0.1:{port + last}")
