"""Stories of consumers: fetches with all kinds of limits, versions and sessions, offsets of times, records that are
deleted, and a group of up to two members, static ones among them, whose offsets are committed, fetched and deleted.
"""

from collections.abc import Callable
from random import Random

PLACES = ("t-0", "t-1", "u-0")
LIMITS = (0, 1, 70, 100, 150, 300, 1000, 1 << 20)
SHARED_LIMITS = (0, 1, 1 << 20)
"""Of all partitions together: Kafka also counts the piece of a batch that it sends last, which no reader can use."""
TIMES = ("latest", "earliest", "max-timestamp", "T+0", "T+5", "T+60", "T+61")
TIMES_AFTER_DELETION = tuple(time for time in TIMES if time != "max-timestamp")
"""Kafka finds the largest time among deleted records, too."""
IN_THE_END = (
    "eve ListOffsets t-0=latest t-1=latest u-0=latest",
    "eve ListOffsets t-0=earliest t-1=earliest u-0=earliest",
    "read t-0",
    "log t-1",
    "log u-0",
    "eve OffsetFetch v8 g everything",
    "eve OffsetFetch v8 h everything",
    "eve DescribeGroups g h",
    "eve ListGroups",
    "offsets log h",
)


class Author:
    """Makes up one story."""

    def __init__(self, seed: int, cluster: int) -> None:
        self.random = Random(f"consumers {seed}")
        self.cluster = cluster
        self.steps: list[str] = []
        self.sessions = 0
        self.session_epoch = 0
        self.has_session = False
        self.named = 0
        """Member ids that were given so far: M1 to M<named>."""
        self.members: dict[str, str] = {}
        """Who is in the group now → its member id; the first leads."""
        self.static: set[str] = set()
        self.joined_with: dict[str, int] = {}
        self.is_open = False
        self.times = TIMES

    def story(self) -> list[str]:
        """The steps."""
        kinds: list[tuple[float, Callable[[int], None]]] = [
            (16, self.produce),
            (6, self.transact),
            (22, self.fetch),
            (12, self.fetch_in_a_session),
            (8, self.list_offsets),
            (4, self.delete_records),
            (8, self.join),
            (4, self.leave),
            (5, self.come_back),
            (12, self.act_as_member),
            (6, self.commit_alone),
            (6, self.look_at_offsets),
            (3, self.administer),
        ]
        self.steps = ["topic t partitions=2", "topic u"]
        for number in range(3):
            self.produce(100 + number)
        for number, make in enumerate(
            self.random.choices([make for _, make in kinds], [w for w, _ in kinds], k=self.random.randint(15, 35))
        ):
            make(number)
        return [*self.steps, *(["pat EndTxn abort"] if self.is_open else []), *IN_THE_END]

    def say(self, step: str) -> None:
        self.steps.append(step)

    def places(self, most: int = 3) -> list[str]:
        return self.random.sample(PLACES, self.random.randint(1, most))

    # -- records ---------------------------------------------------------------------------------------------------

    def produce(self, number: int) -> None:
        place = self.random.choice(PLACES)
        values = " ".join(f"k{number}:v{number}{letter}" for letter in "abc"[: self.random.randint(1, 3)])
        how = self.random.choice(("", "", " codec=gzip", " codec=zstd", " size=200", " size=900"))
        at = self.random.choice(("", "", " at=T+5", " at=T+60"))
        self.say(f"bob Produce {place} {values} plain{how}{at}")

    def transact(self, number: int) -> None:
        if self.is_open:
            self.say(f"pat EndTxn {self.random.choice(('commit', 'abort'))}")
            self.is_open = False
            return
        places = self.places(2)
        self.say("pat InitProducerId tx")
        if self.cluster == 0:
            self.say(f"pat AddPartitionsToTxn {' '.join(places)}")
        for place in places:
            self.say(f"pat Produce {place} x{number} y{number}")
        self.is_open = True

    def delete_records(self, number: int) -> None:
        place = self.random.choice(PLACES)
        self.times = TIMES_AFTER_DELETION
        self.say(f"admin DeleteRecords {place}={self.random.choice((-1, 0, 1, 2, 3, 50))}")

    # -- reading ---------------------------------------------------------------------------------------------------

    def reading(self, *, in_session: bool = False) -> str:
        places = self.places()
        words = [f"{place}@{self.random.choice((0, 0, 0, 1, 1, 2, 3, 40))}" for place in places]
        if self.random.random() < 0.4:
            words.append("read_committed")
        if self.random.random() < 0.5:
            limits = LIMITS if len(places) == 1 and not in_session else SHARED_LIMITS
            words.append(f"max_bytes={self.random.choice(limits)}")
        if self.random.random() < 0.6:
            words.append(f"partition_max_bytes={self.random.choice(LIMITS)}")
        if self.random.random() < 0.1:
            words.append(f"leader_epoch={self.random.choice(('E', 'E+1'))}")
        return f"{' '.join(words)} min_bytes={self.random.choice((0, 1, 500))} max_wait_ms=0"

    def fetch(self, number: int) -> None:
        self.say(f"carol Fetch v{self.random.choice((4, 6, 8, 10, 11, 12, 12, 13, 15, 17))} {self.reading()}")

    def fetch_in_a_session(self, number: int) -> None:
        if not self.has_session and self.sessions < 2:
            self.sessions += 1
            self.session_epoch, self.has_session = 0, True
            self.say(f"dave Fetch v12 {self.reading(in_session=True)} session_epoch=0")
        elif self.has_session:
            self.session_epoch += 1
            news = self.reading(in_session=True) if self.random.random() < 0.4 else "max_wait_ms=0"
            committed = " read_committed" if self.random.random() < 0.3 and "read_committed" not in news else ""
            forget = f" forget=[{' '.join(self.places(1))}]" if self.random.random() < 0.15 else ""
            epoch = self.session_epoch + (1 if self.random.random() < 0.05 else 0)
            self.say(f"dave Fetch v12 {news}{committed}{forget} session_id=S{self.sessions} session_epoch={epoch}")
            self.has_session = epoch == self.session_epoch and not forget

    def list_offsets(self, number: int) -> None:
        version = self.random.choice((1, 2, 4, 5, 7, 8, 9, 10))
        times = self.times if version >= 7 else TIMES_AFTER_DELETION
        words = [f"{place}={self.random.choice(times)}" for place in self.places()]
        if version >= 2 and self.random.random() < 0.4:
            words.append("read_committed")
        self.say(f"carol ListOffsets v{version} {' '.join(words)}")

    # -- the group -------------------------------------------------------------------------------------------------

    def join(self, number: int) -> None:
        who = next((name for name in ("anna", "ben") if name not in self.members), None)
        if who is None:
            return
        static = self.random.random() < 0.35
        version = self.random.choice((5, 6, 7, 9) if static else (1, 3, 4, 5, 7, 8, 9))
        self.joined_with[who] = version
        (self.static.add if static else self.static.discard)(who)
        instance = f" instance=i-{who}" if static else ""
        self.say(f"{who} forgets")
        if not static and version >= 4:
            self.say(f"{who} JoinGroup v{version} g")
        self.named += 1
        others = list(self.members)
        self.members[who] = f"M{self.named}"
        if others:
            self.say(f"{who} sends JoinGroup v{version} g{instance}")
            if self.random.random() < 0.5:
                self.say(f"{others[0]} Heartbeat{self.instance_of(others[0])}")
            self.say(f"{others[0]} JoinGroup v{self.joined_with[others[0]]}{self.instance_of(others[0])}")
            self.say(f"{who} hears")
        else:
            self.say(f"{who} JoinGroup v{version} g{instance}")
        self.sync(number)

    def instance_of(self, who: str) -> str:
        return f" instance=i-{who}" if who in self.static else ""

    def sync(self, number: int) -> None:
        shares = " ".join(f"{member}=share{number}of{who}" for who, member in self.members.items())
        for position, who in enumerate(self.members):
            version = 5 if self.joined_with[who] >= 7 else 3
            given = f" {shares}" if position == 0 else ""
            self.say(f"{who} SyncGroup v{version}{given}{self.instance_of(who)}")

    def leave(self, number: int) -> None:
        if not self.members:
            return
        who = self.random.choice(list(self.members))
        self.say(f"{who} LeaveGroup{self.instance_of(who)}")
        del self.members[who]
        for left in self.members:
            self.say(f"{left} Heartbeat{self.instance_of(left)}")
            self.say(f"{left} JoinGroup v{self.joined_with[left]}{self.instance_of(left)}")
            self.sync(number)

    def come_back(self, number: int) -> None:
        """A static member begins anew, and takes the place that it has."""
        who = next((name for name in self.members if name in self.static), None)
        if who is None:
            return
        old = self.members[who]
        self.named += 1
        self.members[who] = f"M{self.named}"
        self.say(f"{who} forgets")
        self.say(f"{who} JoinGroup v{self.joined_with[who]} g{self.instance_of(who)}")
        self.say(f"{who} SyncGroup v3{self.instance_of(who)}")
        if self.random.random() < 0.5:
            self.say(f"late Heartbeat g member_id={old} generation=1{self.instance_of(who)}")

    def act_as_member(self, number: int) -> None:
        who = self.random.choice([*self.members, "stranger"])
        identity = " group_id=g member_id=nobody generation=1" if who == "stranger" else self.instance_of(who)
        if self.random.random() < 0.15:
            identity = f" group_id=g generation={self.random.choice((0, 1, 9))}{identity.replace(' group_id=g', '')}"
            identity = identity.replace(" generation=1", "", 1) if identity.count("generation=") > 1 else identity
        if self.random.random() < 0.3:
            self.say(f"{who} Heartbeat{identity}")
        else:
            version = self.random.choice((7, 8, 9))
            self.say(f"{who} OffsetCommit v{version} {self.offsets(number)}{identity}")

    def offsets(self, number: int) -> str:
        said = self.random.choice(("", "", f' metadata="note {number}"', " leader_epoch=E", " metadata=null"))
        return " ".join(f"{place}={number + index}" for index, place in enumerate(self.places())) + said

    def commit_alone(self, number: int) -> None:
        """Without members; into the group of members, too."""
        group = self.random.choice(("h", "h", "g"))
        version = self.random.choice((2, 4, 6, 8, 9))
        self.say(f'frank OffsetCommit v{version} {self.offsets(number)} group_id={group} member_id=""')

    def look_at_offsets(self, number: int) -> None:
        group = self.random.choice(("g", "h"))
        version = self.random.choice((1, 2, 5, 6, 7, 8, 9))
        what = "everything" if version >= 2 and self.random.random() < 0.3 else " ".join(self.places())
        stable = " require_stable=true" if version >= 7 and self.random.random() < 0.4 else ""
        self.say(f"eve OffsetFetch v{version} {group} {what}{stable}")

    def administer(self, number: int) -> None:
        self.say(
            self.random.choice(
                (
                    f"admin OffsetDelete {' '.join(self.places())} group_id={self.random.choice(('g', 'h'))}",
                    f"admin DeleteGroups {self.random.choice(('g', 'h', 'h', 'g h'))}",
                    "admin DescribeGroups g h",
                    "admin ListGroups states_filter=[Stable Empty]",
                )
            )
        )
