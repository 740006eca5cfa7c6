"""Members of share groups (KIP-932) that are Java's `KafkaShareConsumer`, unmodified.

`TALLYSTICK_TEST_BROKER=apache-kafka` puts a real Apache Kafka in our place. Where there is no JDK, or no jars, these
tests say so and skip.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tallystick.process import BrokerProcess
from tests.harness import jars
from tests.harness.confluent import make_topic, producer, wait_until, write
from tests.harness.java_shares import SECONDS, Handed, JavaShareMember, Refused, ShareProgram

EXPLICIT = {"share__acknowledgement__mode": "explicit"}
STRICT = {"share__acquire__mode": "record_limit"}
MOST_DELIVERIES = 5
LOCK_MS = 1_000

Start = Callable[[str], ShareProgram]
Place = tuple[int, int]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts programs, which are gone when the test ends."""
    programs: list[ShareProgram] = []

    def begin(bootstrap: str) -> ShareProgram:
        try:
            programs.append(ShareProgram(bootstrap, tmp_path / "java.errors"))
        except jars.JarsMissing as reason:
            pytest.skip(f"Java's share consumer needs a JDK and Kafka's jars: {reason}")
        return programs[-1]

    yield begin
    for program in programs:
        program.close()


def shared(program: ShareProgram, bootstrap: str, name: str, partitions: int = 1, **settings: object) -> None:
    """A topic, and a group of the same name that begins at its start."""
    make_topic(bootstrap, name, partitions)
    program.set(name, **{"auto__offset__reset": "earliest", **settings})


def numbers(*span: int) -> list[bytes]:
    return [b"%d" % number for number in range(*span)]


def places(records: list[Handed]) -> list[Place]:
    return [one.place for one in records]


class Ledger:
    """Who holds what, and what has become of it; asserts what must hold of a share group."""

    def __init__(self) -> None:
        self.holders: dict[Place, str] = {}
        self.deliveries: dict[Place, int] = {}
        self.settled: dict[Place, str] = {}

    def handed(self, member: str, records: list[Handed]) -> None:
        for one in records:
            assert one.place not in self.holders, f"{one} is {self.holders.get(one.place)}'s"
            assert one.place not in self.settled, f"{one} is {self.settled.get(one.place)}"
            self.holders[one.place] = member
            self.deliveries[one.place] = self.deliveries.get(one.place, 0) + 1
            assert one.deliveries == self.deliveries[one.place]

    def said(self, kind: str, records: list[Handed]) -> None:
        for one in records:
            del self.holders[one.place]
            if kind != "RELEASE" or one.deliveries == MOST_DELIVERIES:
                self.settled[one.place] = kind


def test_every_record_is_one_members_at_a_time(bootstrap: str, name: str, start: Start) -> None:
    """Three members in two processes take turns, hold records of different polls at once, and say all there is to say.
    How often a record was handed out is what its members are told."""
    random, ledger, count = Random(7), Ledger(), 300
    first, second = start(bootstrap), start(bootstrap)
    shared(first, bootstrap, name, 2)
    for partition in range(2):
        write(bootstrap, name, numbers(partition, count, 2), partition=partition)
    members = [
        program.join(f"{name}-{index}", name, name, max__poll__records=10, **EXPLICIT)
        for index, program in enumerate((first, first, second))
    ]
    held: dict[str, list[Handed]] = {}

    def turn(member: JavaShareMember) -> None:
        if records := held.pop(member.name, []):
            random.shuffle(records)
            parts = {"ACCEPT": records[:4], "RELEASE": records[4:8], "REJECT": records[8:]}
            for kind, some in parts.items():
                member.say(kind, *some)
            assert member.commit() == []
            for kind, some in parts.items():
                ledger.said(kind, some)
        else:
            found = member.poll()
            ledger.handed(member.name, found)
            held[member.name] = found

    def all_settled() -> bool:
        for member in random.sample(members, len(members)):
            turn(member)
        return len(ledger.settled) == count

    wait_until(all_settled, "everything is settled", seconds=SECONDS)
    assert first.lags(name) == [0, 0]
    assert max(ledger.deliveries.values()) > 1


def test_who_says_nothing_accepts_with_the_next_poll(bootstrap: str, name: str, start: Start) -> None:
    """Implicit acknowledgement, the default."""
    program = start(bootstrap)
    shared(program, bootstrap, name)
    write(bootstrap, name, numbers(20))
    member = program.join("ada", name, name, max__poll__records=7, **STRICT)
    found: list[Handed] = []
    while len(found) < 20:
        found += member.poll_some()
    assert places(found) == [(0, offset) for offset in range(20)]
    assert member.commit() == []
    assert program.lags(name) == [0]
    write(bootstrap, name, numbers(20, 21))
    member.leave()
    heir = program.join("bob", name, name)
    assert [one.offset for one in heir.poll_some()] == [20]


def test_what_is_rejected_is_gone_and_what_is_released_comes_again(bootstrap: str, name: str, start: Start) -> None:
    program = start(bootstrap)
    shared(program, bootstrap, name)
    write(bootstrap, name, numbers(4))
    ada = program.join("ada", name, name, **EXPLICIT)
    found = ada.poll_some()
    with pytest.raises(Refused, match="IllegalStateException"):
        ada.poll()
    ada.say("ACCEPT", found[0])
    ada.say("RELEASE", found[1], found[3])
    ada.settle("REJECT", found[2])
    assert program.lags(name) == [2]
    again = ada.poll_some()
    assert [(one.offset, one.deliveries) for one in again] == [(1, 2), (3, 2)]
    ada.settle("ACCEPT", *again)
    assert program.lags(name) == [0]


def test_a_record_is_handed_out_so_often_and_no_more(bootstrap: str, name: str, start: Start) -> None:
    """The limit of deliveries, as the group sets it."""
    program = start(bootstrap)
    shared(program, bootstrap, name, delivery__count__limit=3)
    write(bootstrap, name, numbers(2))
    ada = program.join("ada", name, name, **EXPLICIT)
    _release(ada, 0, times=3)
    assert program.lags(name) == [0]


def _release(member: JavaShareMember, offset: int, *, times: int) -> None:
    """Give back one record as often as it comes, and accept all else."""
    for delivery in range(1, times + 1):
        found = {one.offset: one for one in member.poll_some()}
        poisoned = found.pop(offset)
        assert poisoned.deliveries == delivery
        member.say("ACCEPT", *found.values())
        member.settle("RELEASE", poisoned)


def test_a_lock_that_is_over_gives_the_record_to_another(bootstrap: str, name: str, start: Start) -> None:
    """And who had it before is told that it is too late."""
    program = start(bootstrap)
    shared(program, bootstrap, name, record__lock__duration__ms=LOCK_MS)
    write(bootstrap, name, numbers(1))
    ada, bob = (program.join(one, name, name, **EXPLICIT) for one in ("ada", "bob"))
    (late,) = ada.poll_some()
    assert ada.lock_ms() == LOCK_MS
    (taken,) = bob.poll_some()
    assert (taken.offset, taken.deliveries) == (0, 2)
    ada.say("ACCEPT", late)
    assert ada.commit() == ["InvalidRecordStateException"]


def test_a_renewed_record_stays_its_members(bootstrap: str, name: str, start: Start) -> None:
    """KIP-1222: it comes with the next poll, and that is no delivery more."""
    program = start(bootstrap)
    shared(program, bootstrap, name)
    write(bootstrap, name, numbers(3))
    ada = program.join("ada", name, name, **EXPLICIT)
    found = ada.poll_some()
    ada.say("ACCEPT", found[0], found[2])
    ada.settle("RENEW", found[1])
    assert program.lags(name) == [1]
    assert ada.poll_some() == [found[1]]
    ada.settle("RENEW", found[1])
    assert ada.poll_some() == [found[1]]
    ada.settle("ACCEPT", found[1])
    assert program.lags(name) == [0]


def test_committed_records_alone_are_shared_where_the_group_wants_it(bootstrap: str, name: str, start: Start) -> None:
    program = start(bootstrap)
    shared(program, bootstrap, name, isolation__level="read_committed")
    everything = f"{name}-all"
    program.set(everything, auto__offset__reset="earliest")
    sender = producer(bootstrap, transactional__id=name)
    sender.init_transactions(SECONDS)
    for kind in ("committed", "aborted", "undecided"):
        sender.begin_transaction()
        for number in range(3):
            sender.produce(name, f"{kind}-{number}".encode(), partition=0)
        sender.flush(SECONDS)
        if kind == "committed":
            sender.commit_transaction(SECONDS)
        elif kind == "aborted":
            sender.abort_transaction(SECONDS)
    ada = program.join("ada", name, name, **EXPLICIT)
    uncommitted = program.join("eve", everything, name, **EXPLICIT)
    seen: list[str] = []
    while len(seen) < 9:
        found = uncommitted.poll_some()
        seen += [one.value for one in found]
        uncommitted.settle("ACCEPT", *found)
    assert seen == [f"{kind}-{number}" for kind in ("committed", "aborted", "undecided") for number in range(3)]
    found = ada.poll_some()
    assert [one.value for one in found] == [f"committed-{number}" for number in range(3)]
    ada.settle("ACCEPT", *found)
    sender.commit_transaction(SECONDS)
    found = ada.poll_some()
    assert [one.value for one in found] == [f"undecided-{number}" for number in range(3)]
    ada.settle("ACCEPT", *found)
    write(bootstrap, name, [b"last"], partition=0)
    assert [one.value for one in ada.poll_some()] == ["last"]


@pytest.mark.parametrize("how", ["leaves", "is killed"])
def test_what_a_member_held_goes_to_another_when_it(how: str, bootstrap: str, name: str, start: Start) -> None:
    program, other = start(bootstrap), start(bootstrap)
    shared(program, bootstrap, name)
    write(bootstrap, name, numbers(10))
    ada, bob = other.join("ada", name, name, **EXPLICIT), program.join("bob", name, name, **EXPLICIT)
    found = ada.poll_some()
    ada.say("ACCEPT", *found[:3])
    ada.settle("RENEW", *found[3:])
    if how == "leaves":
        ada.leave()
    else:
        other.kill()
    left = bob.poll_some()
    assert [(one.offset, one.deliveries) for one in left] == [(offset, 2) for offset in range(3, 10)]
    bob.settle("ACCEPT", *left)
    assert program.lags(name) == [0]


def test_nothing_accepted_comes_again_and_nothing_is_lost_when_the_broker_is_killed(
    own_broker: Callable[..., BrokerProcess], start: Start
) -> None:
    """Members go on by themselves. What a commit confirmed is settled; what one was in doubt of may be either."""
    broker = own_broker().start()
    program, count = start(broker.bootstrap), 90
    shared(program, broker.bootstrap, "t", 2)
    for partition in range(2):
        write(broker.bootstrap, "t", numbers(partition, count, 2), partition=partition)
    members = [program.join(f"m{index}", "t", "t", max__poll__records=10, **EXPLICIT, **STRICT) for index in range(2)]
    accepted: set[Place] = set()
    doubtful: set[Place] = set()

    def turn(member: JavaShareMember, *, killed: bool = False) -> None:
        found = member.poll()
        assert not accepted & set(places(found))
        if killed:
            broker.kill()
            broker.start()
        member.say("ACCEPT", *found)
        (doubtful if member.commit() else accepted).update(places(found))

    for stop in (15, 45, 70):
        while len(accepted) < stop:
            for member in members:
                turn(member)
        turn(members[0], killed=True)

    def all_accepted() -> bool:
        for member in members:
            turn(member)
        return program.lags("t") == [0, 0]

    wait_until(all_accepted, "everything is settled", seconds=SECONDS)
    assert accepted | doubtful == {(partition, offset) for partition in range(2) for offset in range(count // 2)}
