"""Stories of groups of the consumer protocol (KIP-848): up to three members, static ones among them, that join, change
what they want, give back what they own or say that they do, leave, and commit offsets under epochs of all ages.
"""

from collections.abc import Callable
from random import Random

MEMBERS = {"alice": "A", "bob": "B", "carol": "C"}
OWNED = ("[]", "[t-0]", "[t-1]", "[t-0 t-1]", "[u-0]", "[t-0 u-0]", "[t-0 t-1 u-0]", "[t-7]")
WANTED = ("[t]", "[t]", "[t]", "[t]", "[u]", "[nobody]", "[]")
"""Which of several topics the uniform assignor begins with is a matter of their ids, in Kafka."""
WANTED_BY_RANGE = (*WANTED, "[t u]", "[t u]", "[t u]")
ASSIGNORS = ("uniform", "range", "range", "nobody")
LOOKS = (
    "eve ConsumerGroupDescribe g",
    "eve ConsumerGroupDescribe g nobody",
    "eve ListGroups",
    "eve ListGroups types_filter=[consumer]",
    "eve DescribeGroups v6 g",
    "eve OffsetFetch v9 g everything",
    "eve DeleteGroups g",
)
IN_THE_END = (
    "eve ConsumerGroupDescribe g",
    "eve ListGroups",
    "eve OffsetFetch v9 g everything",
    "group log g",
    "offsets log g",
)


class Author:
    """Makes up one story."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"members {seed}")
        self.joined: list[str] = []
        """Those that have ever joined: whoever has not has nothing to say by itself."""
        self.instances = {client: self.random.choice((None, None, "one", "two")) for client in MEMBERS}
        """Kafka does not forget the instance that a member was before."""
        self.by_range = self.random.random() < 0.4

    def wanted(self) -> str:
        return self.random.choice(WANTED_BY_RANGE if self.by_range else WANTED)

    def assignor(self) -> str:
        return "range" if self.by_range else self.random.choice(ASSIGNORS)

    def story(self) -> list[str]:
        """The steps."""
        kinds: list[tuple[float, Callable[[], str]]] = [
            (10, self.join),
            (26, self.beat),
            (12, self.own),
            (5, self.want),
            (5, self.leave),
            (5, self.say_another_epoch),
            (6, self.commit),
            (3, self.fetch_offsets),
            (2, self.commit_from_outside),
            (2, self.delete_offsets),
            (6, lambda: self.random.choice(LOOKS)),
        ]
        makes = self.random.choices([make for _, make in kinds], [w for w, _ in kinds], k=self.random.randint(12, 35))
        return [
            "admin IncrementalAlterConfigs group g set consumer.assignment.interval.ms=0",
            "topic t partitions=2",
            "topic u",
            self.join(),
            *(make() for make in makes),
            *IN_THE_END,
        ]

    def member(self) -> str:
        return self.random.choice(self.joined)

    # -- heartbeats ------------------------------------------------------------------------------------------------

    def join(self) -> str:
        client = self.random.choice(tuple(MEMBERS))
        if client not in self.joined:
            self.joined.append(client)
        words = [f"joins={self.wanted()}"]
        if self.instances[client] is not None:
            words.append(f"instance_id={self.instances[client]}")
        if self.by_range or self.random.random() < 0.2:
            words.append(f"server_assignor={self.assignor()}")
        if self.random.random() < 0.1:
            words.append(f"rebalance_timeout_ms={self.random.choice((-1, 0, 1000))}")
        if self.random.random() < 0.1:
            words.append("topic_partitions=[{topic_id=t partitions=[0]}]")
        return f"{client} ConsumerGroupHeartbeat g member_id={MEMBERS[client]} {' '.join(words)}"

    def beat(self) -> str:
        return f"{self.member()} ConsumerGroupHeartbeat"

    def own(self) -> str:
        return f"{self.member()} ConsumerGroupHeartbeat owns={self.random.choice(OWNED)}"

    def want(self) -> str:
        if self.random.random() < 0.3:
            return f"{self.member()} ConsumerGroupHeartbeat server_assignor={self.assignor()}"
        owned = f" owns={self.random.choice(OWNED)}" if self.random.random() < 0.4 else ""
        return f"{self.member()} ConsumerGroupHeartbeat subscribed_topic_names={self.wanted()}{owned}"

    def leave(self) -> str:
        return f"{self.member()} ConsumerGroupHeartbeat leaves{self.random.choice(('', '', ' for a while'))}"

    def say_another_epoch(self) -> str:
        client = self.member()
        words = [f"member_epoch={self.random.choice((1, 2, 3, 4, 5, 9, -3))}"]
        if self.random.random() < 0.4:
            words.append(f"owns={self.random.choice(OWNED)}")
        if self.random.random() < 0.2:
            words.append(f"member_id={self.random.choice('ABCX')}")
        return f"{client} ConsumerGroupHeartbeat {' '.join(words)}"

    # -- offsets ---------------------------------------------------------------------------------------------------

    def place(self) -> str:
        return self.random.choice(("t-0", "t-1", "u-0", "t-7"))

    def epoch(self) -> str:
        return f" generation={self.random.choice((-1, 1, 2, 3, 4, 9))}" if self.random.random() < 0.4 else ""

    def commit(self) -> str:
        version = self.random.choice((7, 8, 9, 9, 9))
        offset = self.random.randint(0, 9)
        return f"{self.member()} OffsetCommit v{version} {self.place()}={offset} group_id=g{self.epoch()}"

    def commit_from_outside(self) -> str:
        return f"eve OffsetCommit v{self.random.choice((2, 8, 9))} {self.place()}=1 group_id=g"

    def fetch_offsets(self) -> str:
        who = self.random.choice(("A", "B", "C", "X"))
        epoch = self.random.choice((-1, 1, 2, 3, 4))
        return f"eve OffsetFetch v9 g {self.place()} member_id={who} member_epoch={epoch}"

    def delete_offsets(self) -> str:
        return f"eve OffsetDelete {self.place()} group_id=g"
