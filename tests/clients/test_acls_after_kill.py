"""`kill -9` while ACLs are made and deleted: what was acknowledged holds, whatever else was under way."""

import asyncio
import random
from pathlib import Path

from protocol.acls import Acl, Operation, PatternType, Permission, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tallystick.client.acls import acls_of, creation_of, described_by, filter_of
from tallystick.client.connection import Connection
from tallystick.client.errors import ConnectionLost
from tallystick.client.security import Credentials, Security
from tests.clients.test_acls import PASSWORDS, SETTINGS
from tests.harness.broker import KAFKA
from tests.harness.secure_broker import SecureBroker, sasl_settings, secure_broker
from tests.unit.security.door_rig import EVERYTHING

KILLS = 1 if KAFKA else 5
UNDER_WAY = 40


class Books:
    """ACLs that are there for certain, and those that may be: nobody heard how their last change ended."""

    def __init__(self) -> None:
        self.there: set[Acl] = set()
        self.uncertain: set[Acl] = set()
        self.made = 0

    def fresh(self) -> Acl:
        self.made += 1
        name = f"topic-{self.made}"
        return Acl(
            ResourceType.TOPIC, name, PatternType.LITERAL, "User:alice", "*", Operation.DESCRIBE, Permission.ALLOW
        )


def address(bootstrap: str) -> tuple[str, int]:
    host, port = bootstrap.split(":")
    return host, int(port)


async def change(connection: Connection, books: Books, acl: Acl) -> None:
    """Make it, or delete it where it is there."""
    deletes = acl in books.there
    books.there.discard(acl)
    books.uncertain.add(acl)
    if deletes:
        deleted = await connection.ask(DeleteAclsRequest(filters=[filter_of(acl)]), 3)
        assert len(deleted.filter_results[0].matching_acls) == 1
    else:
        made = await connection.ask(CreateAclsRequest(creations=[creation_of(acl)]), 3)
        assert made.results[0].error_code == ErrorCode.NONE
        books.there.add(acl)
    books.uncertain.discard(acl)


async def change_until_killed(broker: SecureBroker, books: Books, rng: random.Random) -> None:
    """Many changes at once on several connections; the broker is killed when some of them are acknowledged."""
    connections = [await Connection.connect(*address(broker.open_bootstrap), negotiate=False) for _ in range(4)]
    changed = [*rng.sample(sorted(books.there), len(books.there) // 2), *(books.fresh() for _ in range(UNDER_WAY))]
    rng.shuffle(changed)
    changes = [asyncio.ensure_future(change(rng.choice(connections), books, acl)) for acl in changed]
    enough = rng.randrange(len(changes) // 4, len(changes) * 3 // 4)
    while sum(one.done() for one in changes) < enough:
        await asyncio.wait([one for one in changes if not one.done()], return_when=asyncio.FIRST_COMPLETED)
    broker.process.kill()
    outcomes = await asyncio.gather(*changes, return_exceptions=True)
    assert all(outcome is None or isinstance(outcome, ConnectionLost) for outcome in outcomes), outcomes


async def look(broker: SecureBroker, books: Books) -> None:
    """What is listed is what holds, all that is certain, and nothing that is not."""
    connection = await Connection.connect(*address(broker.open_bootstrap))
    listed = set(acls_of(await connection.ask(described_by(EVERYTHING))))
    assert listed >= books.there, "an acknowledged ACL is lost, or a deleted one is back in its place"
    assert listed <= books.there | books.uncertain
    credentials = Credentials("PLAIN", "alice", PASSWORDS["alice"])
    alice = await Connection.connect(*address(broker.bootstrap), security=Security(credentials=credentials))
    names = [f"topic-{number}" for number in range(1, books.made + 1)]
    wanted = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
    )
    topics = (await alice.ask(wanted, 12)).topics
    may_know = {topic.name for topic in topics if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert may_know == {acl.resource_name for acl in listed}
    assert {topic.error_code for topic in topics if topic.name not in may_know} <= {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED
    }
    books.there, books.uncertain = listed, set()
    await alice.close()
    await connection.close()


def test_acknowledged_changes_of_acls_survive_kills(tmp_path: Path) -> None:
    broker = secure_broker(tmp_path, sasl_settings(PASSWORDS) | SETTINGS)
    books, rng = Books(), random.Random(5)
    try:
        for _ in range(KILLS):
            asyncio.run(change_until_killed(broker, books, rng))
            broker.process.start()
            asyncio.run(look(broker, books))
        assert len(books.there) > KILLS
    finally:
        broker.process.close()
