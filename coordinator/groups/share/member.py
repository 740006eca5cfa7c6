"""One member of a share group, as its records say."""

from dataclasses import dataclass, field

from coordinator.groups.assignors.subject import Assignment
from coordinator.groups.held import MEMBER_BYTES, text_bytes

JOINING_EPOCH, LEAVING_EPOCH = 0, -1


@dataclass(frozen=True, slots=True)
class ShareMember:
    """`assigned` are the partitions it may fetch from, which other members may do as well."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    assigned: Assignment = field(default_factory=dict)

    @property
    def held_bytes(self) -> int:
        texts = text_bytes(self.member_id, self.rack_id, self.client_id, self.client_host)
        names = sum(80 + text_bytes(topic) for topic in self.topics)
        return MEMBER_BYTES + texts + names + sum(250 + 50 * len(of) for of in self.assigned.values())
