"""A member of a classic group: join, sync, heartbeat, leave, and the offsets it begins at. The leader deals partitions
out in turn. A static member (KIP-345) has a name, `instance`, and takes its place again when it begins anew.
"""

import asyncio
import contextlib
import json

from protocol.errors import ErrorCode
from protocol.messages.group_offsets import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.simulation.clients.session import NoAnswer, Session
from tests.simulation.history import Ownership, Place
from tests.simulation.world import World

PATIENCE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
SUBSCRIPTION = b"\0\0\0\0\0\1\0\1a\xff\xff\xff\xff"


class Member:
    """See the head of this file."""

    def __init__(
        self,
        world: World,
        session: Session,
        group: str,
        places: list[Place],
        session_timeout_ms: int,
        instance: str | None = None,
    ) -> None:
        self.world = world
        self.session = session
        self.group = group
        self.member_id = ""
        self.instance = instance
        self.generation = -1
        self._places = places
        self._session_timeout_ms = session_timeout_ms
        self._beat_at = 0.0

    async def join(self) -> list[Place] | None:
        """Become a member of the next generation; what it owns, or None where it has to be tried again."""
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=1000,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="turns", metadata=SUBSCRIPTION)],
        )
        try:
            answer = await self.session.ask(request, 5)
        except NoAnswer:
            await asyncio.sleep(0.02)
            return None
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return None
        if answer.error_code:
            await self._refused("join", answer.error_code)
            return None
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return await self._sync(answer)

    async def _sync(self, joined: JoinGroupResponse) -> list[Place] | None:
        members = sorted(member.member_id for member in joined.members)
        shares: dict[str, list[Place]] = {member: [] for member in members}
        for index, place in enumerate(self._places if members else []):
            shares[members[index % len(members)]].append(place)
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=json.dumps(share).encode())
                for member, share in shares.items()
            ],
        )
        history = self.world.history
        asked_at = history.time
        try:
            answer = await self.session.ask(request, 3)
        except NoAnswer:
            return None
        if answer.error_code:
            await self._refused("sync", answer.error_code)
            return None
        owned = [(str(topic), int(partition)) for topic, partition in json.loads(answer.assignment or b"[]")]
        history.note("owns", self.session.name, self.member_id[-4:], self.generation, owned)
        owner = self.instance or self.member_id
        history.ownerships.append(Ownership(self.group, self.generation, owner, tuple(owned), asked_at))
        self.world.hit("group.joined")
        return owned

    async def _refused(self, what: str, code: int) -> None:
        self.world.hit(f"{what}.error-{code}")
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""
        await asyncio.sleep(0.01)

    async def positions(self, owned: list[Place]) -> dict[Place, int] | None:
        """Where to go on, once nothing is pending there; None where the generation is over."""
        request = OffsetFetchRequest(
            group_id=self.group,
            topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[index]) for topic, index in owned],
            require_stable=True,
        )
        while await self.beat():
            try:
                answer = await self.session.ask(request, 7)
            except NoAnswer:
                await asyncio.sleep(0.02)
                continue
            found = [(topic.name, one) for topic in answer.topics for one in topic.partitions]
            codes = {answer.error_code, *(one.error_code for _, one in found)} - {0}
            if not codes:
                return {(name, one.partition_index): max(0, one.committed_offset) for name, one in found}
            for code in sorted(codes):
                self.world.hit(f"offsets.error-{code}")
                if code not in PATIENCE:
                    return None
            await asyncio.sleep(0.01)
        return None

    async def beat(self) -> bool:
        """A heartbeat, where one is due; whether the generation goes on."""
        now = self.world.scheduler.now
        if now - self._beat_at < self._session_timeout_ms / 4000:
            return True
        self._beat_at = now
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        try:
            code = (await self.session.ask(request, 3)).error_code
        except NoAnswer:
            return True
        if code and code not in PATIENCE:
            await self._refused("heartbeat", code)
            return False
        return True

    def begin_anew(self) -> None:
        """As a process that was started again, and knows its name alone."""
        self.member_id = ""
        self.world.hit("member.began-anew")

    async def leave(self) -> None:
        """Says so once, as a client that ends does: whether it was heard, its session will tell."""
        with contextlib.suppress(NoAnswer):
            await self.ask_to_leave()

    async def ask_to_leave(self) -> LeaveGroupResponse:
        identity = MemberIdentity(member_id="" if self.instance else self.member_id, group_instance_id=self.instance)
        request = LeaveGroupRequest(group_id=self.group, members=[identity])
        answer: LeaveGroupResponse = await self.session.ask(request, 4)
        return answer
