"""A real Apache Kafka with ACLs, asked what `api_answers` and `random_acls` ask.

`python -m tests.unit.security.kafka_door` writes its answers beside them.
"""

import asyncio
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from protocol.acls import Acl
from protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest
from protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tallystick.client.acls import creation_of
from tallystick.client.connection import Connection
from tests.harness.apache_kafka import ApacheKafka
from tests.unit.security import api_answers, random_acls
from tests.unit.security.api_cases import CASES
from tests.unit.security.door_rig import EVERYTHING, PATIENCE_S, ROOT


class KafkaDoor:
    """A real Apache Kafka with StandardAuthorizer and users that say their names with SASL PLAIN."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connections: dict[str, Connection] = {}

    async def ask(self, request: Any, version: int, who: str) -> Any:
        connection = self._connections.get(who)
        if connection is None:
            connection = await Connection.connect("127.0.0.1", self._port, negotiate=False)
            await connection.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            user = who.removeprefix("User:")
            done = await connection.ask(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0secret".encode()), 2)
            assert not done.error_code, done.error_message
            self._connections[who] = connection
        return await asyncio.wait_for(connection.ask(request, version), PATIENCE_S)

    async def replace_acls(self, acls: Iterable[Acl]) -> None:
        await self.ask(DeleteAclsRequest(filters=[EVERYTHING]), 3, ROOT)
        await self.ask(CreateAclsRequest(creations=[creation_of(acl) for acl in acls]), 3, ROOT)


USERS = "".join(f' user_{name}="secret"' for name in ("root", "alice", "admin"))
KAFKA = {
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="secret"{USERS};'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root;User:admin;User:ANONYMOUS",
}


def main() -> None:
    # Who has said who it is does not say it again.
    cases = [case for case in CASES if not case.name.startswith("Sasl")]
    with tempfile.TemporaryDirectory() as folder:
        kafka = ApacheKafka(Path(folder), settings=KAFKA, heap="512m")
        kafka.start()
        try:
            heard = asyncio.run(api_answers.answers(KafkaDoor(kafka.port), cases))
            _write(api_answers.RECORDED, heard)
            _write(random_acls.RECORDED, asyncio.run(random_acls.all_decisions(KafkaDoor(kafka.port))))
        finally:
            kafka.kill()


def _write(path: Path, heard: dict[str, Any]) -> None:
    """A line for each case: what changed is seen in a difference."""
    lines = [f"{json.dumps(name)}: {json.dumps(heard[name], sort_keys=True)}" for name in sorted(heard)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
