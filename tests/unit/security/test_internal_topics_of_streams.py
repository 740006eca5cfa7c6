"""Internal topics of a streams group are made as the one who asks may, and the answer says so where it may not."""

from broker.api.services import Services
from protocol.acls import Operation, ResourceType
from protocol.messages.streams.groups import StreamsGroupHeartbeatResponse
from tests.unit.security.api_answers import prepared
from tests.unit.security.door_rig import ALICE, OwnDoor, allow, ask, behind_the_door, grant
from tests.unit.security.streams_cases import joining

SEEN = (allow(Operation.READ, ResourceType.GROUP, "s"), allow(Operation.DESCRIBE, ResourceType.TOPIC, "*"))


def missing(answer: StreamsGroupHeartbeatResponse) -> str:
    return next(one.status_detail for one in answer.status or () if one.status_code == 3)


def test_who_may_make_no_topics_is_told_which() -> None:
    async def story(node: Services) -> None:
        await prepared(OwnDoor(node))
        await grant(node, *SEEN)
        answer = await ask(node, joining(), 0, ALICE)
        denied = "Unauthorized to CREATE on topics changelog."
        assert missing(answer) == f"Internal topics are missing: changelog; {denied}"
        assert not node.internal_topics._under_way, "none is made"
        await grant(node, allow(Operation.CREATE, ResourceType.TOPIC, "changelog"))
        assert missing(await ask(node, joining(), 0, ALICE)) == "Internal topics are missing: changelog"
        assert node.internal_topics._under_way == {"changelog"}

    behind_the_door(story)
