"""A fetch session of somebody who may not read everything: it looks at what may have something new, and at everything
when what somebody may do has changed."""

import pytest

from broker.api.handlers import fetch as handler
from broker.api.permissions.of_records import Readable
from broker.api.services import Services
from protocol.acls import Operation, Permission, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.unit.security.door_rig import ALICE, HOST, ROOT, allow, ask, behind_the_door, grant, revoke
from tests.unit.security.test_access_stories import make, produce

READ, TOPIC = Operation.READ, ResourceType.TOPIC
MANY = [f"t{number:02}" for number in range(12)]
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class Reader:
    """Alice, with a session over all of them. Nothing is read, so what there is is told again and again."""

    def __init__(self, node: Services) -> None:
        self.node = node
        self.session_id = self.epoch = 0

    async def fetch(self, *topics: str, host: str = HOST, replica_id: int = -1) -> dict[str, int]:
        """The error of each topic that something was told of."""
        one = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=99)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            replica_id=replica_id,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(topic=name, partitions=[one]) for name in topics],
        )
        answer = await ask(self.node, request, 12, ALICE, host=host)
        assert not answer.error_code
        self.session_id, self.epoch = answer.session_id, self.epoch + 1
        return {topic.topic: topic.partitions[0].error_code for topic in answer.responses}

    @property
    def due(self) -> int:
        return self.node.fetch_sessions._sessions[self.session_id].due_count


async def at_rest(node: Services) -> Reader:
    """Nothing is new, and nothing due."""
    await make(node, *MANY)
    await grant(node, *(allow(READ, TOPIC, name) for name in MANY))
    reader = Reader(node)
    assert await reader.fetch(*MANY) == dict.fromkeys(MANY, 0)
    assert await reader.fetch() == {}
    assert reader.due == 0
    return reader


@pytest.fixture(params=[500, 1], ids=["small", "in slices"], autouse=True)
def _of_both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetches of many partitions are another piece of code."""
    monkeypatch.setattr(handler, "AT_ONCE", request.param)


def test_only_what_moves_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []
    known = Readable.includes

    def noted(readable: Readable, topic: str | None) -> bool:
        asked.append(topic)
        return known(readable, topic)

    async def story(node: Services) -> None:
        reader = await at_rest(node)
        monkeypatch.setattr(Readable, "includes", noted)
        assert await reader.fetch() == {} and asked == []
        await produce(node, MANY[3], who=ROOT)
        assert await reader.fetch() == {MANY[3]: 0}
        assert asked == [MANY[3]]

    behind_the_door(story)


def test_a_right_that_is_gone_is_missed_though_nothing_moves() -> None:
    async def story(node: Services) -> None:
        reader = await at_rest(node)
        await revoke(node, [allow(READ, TOPIC, MANY[5])])
        for _ in range(2):
            assert await reader.fetch() == {MANY[5]: DENIED}, "again and again"
        assert reader.due == 1
        await grant(node, allow(READ, TOPIC, MANY[5]))
        assert await reader.fetch() == {MANY[5]: 0}
        assert await reader.fetch() == {}
        await grant(node, allow(READ, TOPIC, "another"))
        assert await reader.fetch() == {}, "it is looked at, and nothing is new"

    behind_the_door(story)


def test_a_session_that_goes_on_from_another_host_has_other_rights() -> None:
    async def story(node: Services) -> None:
        elsewhere = allow(READ, TOPIC, MANY[2], host="10.9.9.9", permission=Permission.DENY)
        await make(node, MANY[2])
        await grant(node, elsewhere)
        reader = await at_rest(node)
        assert await reader.fetch(host="10.9.9.9") == {MANY[2]: DENIED}
        assert await reader.fetch() == {MANY[2]: 0}

    behind_the_door(story)


def test_who_says_that_it_is_a_broker_reads_nothing() -> None:
    async def story(node: Services) -> None:
        reader = await at_rest(node)
        assert await reader.fetch(replica_id=7) == dict.fromkeys(MANY, DENIED)
        assert await reader.fetch() == dict.fromkeys(MANY, 0)

    behind_the_door(story)
