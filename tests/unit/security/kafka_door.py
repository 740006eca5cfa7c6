"""A real Apache Kafka with ACLs, asked what `api_answers`, `every_version`, `acl_requests`, `revoked_rights` and
`random_acls` ask.

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
from tallystick.client.acls import acls_of, creation_of, described_by
from tallystick.client.connection import Connection
from tests.harness.apache_kafka import ApacheKafka
from tests.unit.security import acl_requests, api_answers, every_version, random_acls, revoked_rights
from tests.unit.security.api_answers import TRIES
from tests.unit.security.api_cases import CASES
from tests.unit.security.door_rig import EVERYTHING, PATIENCE_S, ROOT


class KafkaDoor:
    """A real Apache Kafka with StandardAuthorizer and users that say their names with SASL PLAIN."""

    def __init__(self, kafka: ApacheKafka) -> None:
        self._kafka = kafka
        self._connections: dict[str, Connection] = {}
        self._controller: Connection | None = None

    async def ask(self, request: Any, version: int, who: str) -> Any:
        try:
            async with asyncio.timeout(PATIENCE_S):
                connection = self._connections.get(who)
                if connection is None or connection.is_lost:
                    connection = self._connections[who] = await self._connected(who)
                return await connection.ask(request, version)
        except TimeoutError:
            raise AssertionError(f"{who} is not answered {request}\n{self._kafka.log_end()}") from None

    async def replace_acls(self, acls: Iterable[Acl]) -> None:
        """Kafka answers when they are written; broker and controller apply them later, each for itself."""
        wanted = list(acls)
        deleted = await self.ask(DeleteAclsRequest(filters=[EVERYTHING]), 3, ROOT)
        assert not any(result.error_code for result in deleted.filter_results)
        made = await self.ask(CreateAclsRequest(creations=[creation_of(acl) for acl in wanted]), 3, ROOT)
        assert not any(result.error_code for result in made.results)
        for of_the_broker in (True, False):
            for _ in range(TRIES):
                if await self._acls(of_the_broker=of_the_broker) == set(wanted):
                    break
                await asyncio.sleep(0.005)
            else:
                raise AssertionError(f"these ACLs do not come into force: {wanted}")

    async def close(self) -> None:
        """Connections end before their event loop does."""
        for connection in (*self._connections.values(), self._controller):
            if connection is not None:
                await connection.close()

    async def _connected(self, who: str) -> Connection:
        connection = await Connection.connect("127.0.0.1", self._kafka.port, negotiate=False)
        await connection.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        user = who.removeprefix("User:")
        done = await connection.ask(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0secret".encode()), 2)
        assert not done.error_code, done.error_message
        return connection

    async def _acls(self, *, of_the_broker: bool) -> set[Acl]:
        """Those that are in force."""
        request = described_by(EVERYTHING)
        if of_the_broker:
            return set(acls_of(await self.ask(request, 3, ROOT)))
        async with asyncio.timeout(PATIENCE_S):
            if self._controller is None:
                self._controller = await Connection.connect("127.0.0.1", self._kafka.controller_port, negotiate=False)
            return set(acls_of(await self._controller.ask(request, 3)))


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
    with tempfile.TemporaryDirectory() as folder:
        kafka = ApacheKafka(Path(folder), settings=KAFKA, heap="512m")
        kafka.start()
        try:
            asyncio.run(_ask_everything(kafka))
        finally:
            kafka.kill()


async def _ask_everything(kafka: ApacheKafka) -> None:
    # Who has said who it is does not say it again.
    cases = [case for case in CASES if not case.name.startswith("Sasl")]
    door = KafkaDoor(kafka)
    try:
        _write(api_answers.RECORDED, await api_answers.answers(door, cases))
        _write(every_version.RECORDED, await every_version.answers(door, cases))
        _write(acl_requests.RECORDED, await acl_requests.answers(door))
        _write(revoked_rights.RECORDED, await revoked_rights.answers(door))
        _write(random_acls.RECORDED, await random_acls.all_decisions(door))
    finally:
        await door.close()


def _write(path: Path, heard: dict[str, Any]) -> None:
    """A line for each case: what changed is seen in a difference."""
    lines = [f"{json.dumps(name)}: {json.dumps(heard[name], sort_keys=True)}" for name in sorted(heard)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{path.name}: {len(lines)} lines", flush=True)


if __name__ == "__main__":
    main()
