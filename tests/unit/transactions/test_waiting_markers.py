"""How often a marker and a COMPLETE are tried, whom their writer answers what, and until when they wait."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from broker.coordination.marker_writer import LocalMarkerWriter, UncommittedMarkers, _MarkerTicket, _not_fenced
from coordinator.machine import Marker
from coordinator.runtime import NotReady
from coordinator.transactions.states import TransactionState
from protocol.errors import ErrorCode
from protocol.internal_topics import CONSUMER_OFFSETS
from tests.unit.transactions.rig import OFFSETS, T0, T1, Rig, identity

DELAYS_MS = [20, 40, 80, 160, 320, 640, 1_000, 1_000]


def decided(rig: Rig, *partitions: Any) -> None:
    rig.add(identity(rig.init()), *partitions)
    rig.end((1000, 0), commit=True)


def test_a_marker_is_tried_again_ever_later() -> None:
    rig, tried = Rig(), list[int]()
    write = rig.leaders.write

    def counted(*arguments: Any) -> None:
        tried.append(rig.time.now_ms())
        write(*arguments)

    rig.leaders.write = counted  # type: ignore[method-assign]
    rig.leaders.answers["t", 0] = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * len(DELAYS_MS)
    decided(rig, T0)
    rig.time.advance(10_000)
    assert [later - earlier for earlier, later in itertools.pairwise(tried)] == DELAYS_MS
    assert rig.state().state is TransactionState.COMPLETE_COMMIT


def test_a_complete_is_tried_again_ever_later() -> None:
    rig, tried = Rig(), list[int]()
    rig.leaders.held = True
    decided(rig, T0)
    complete = rig.machine.complete

    def counted(*arguments: Any, **named: Any) -> Any:
        tried.append(rig.time.now_ms())
        return complete(*arguments, **named)

    rig.machine.complete = counted  # type: ignore[method-assign]
    rig.log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS, times=len(DELAYS_MS))
    rig.leaders.let_go()
    rig.time.advance(10_000)
    assert [later - earlier for earlier, later in itertools.pairwise(tried)] == DELAYS_MS
    assert rig.state().state is TransactionState.COMPLETE_COMMIT


def test_somebody_newer_does_the_rest() -> None:
    rig = Rig()
    rig.leaders.answers["t", 1] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    decided(rig, T0, T1, OFFSETS)
    rig.time.advance(10_000)
    assert rig.state().state is TransactionState.PREPARE_COMMIT
    assert [(topic, index) for topic, index, _ in rig.leaders.written] == [(OFFSETS.topic, 12), ("t", 0)]
    assert rig.completed == []


def test_what_a_marker_says() -> None:
    rig = Rig()
    decided(rig, T0)
    assert rig.leaders.written == [("t", 0, Marker(1000, 1, True, 5, 2))]
    rig.add((1000, 1), T1, version=0)
    rig.end((1000, 1), commit=False, version=0)
    assert rig.leaders.written[1:] == [("t", 1, Marker(1000, 1, False, 5, 0))]


# -- the writer in a node ----------------------------------------------------------------------------------------


class Place:
    """As much of a partition as a wait for its high watermark sees."""

    def __init__(self) -> None:
        self.high_watermark, self.discarded, self.gone = 5, False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self.watchers: list[Any] = []

    def watch(self, watcher: Any) -> None:
        self.watchers.append(watcher)

    def unwatch(self, watcher: Any) -> None:
        self.watchers.remove(watcher)

    def moved(self, high_watermark: int) -> None:
        self.high_watermark = high_watermark
        for watcher in list(self.watchers):
            watcher()


def waiting(place: Place, *end_offsets: int) -> tuple[UncommittedMarkers, list[tuple[int, ErrorCode]]]:
    told: list[tuple[int, ErrorCode]] = []
    releases: Any = SimpleNamespace(put=lambda deliver, answer: deliver(answer))
    markers = UncommittedMarkers(releases)
    for end_offset in end_offsets:
        markers.wait(place, end_offset, lambda error, at=end_offset: told.append((at, error)))  # type: ignore[arg-type,misc]
    return markers, told


def test_a_marker_waits_for_all_below_its_end() -> None:
    place = Place()
    markers, told = waiting(place, 4, 5, 6, 7, 9)
    assert told == [(4, ErrorCode.NONE), (5, ErrorCode.NONE)]
    assert len(place.watchers) == 1
    place.moved(7)
    assert told[2:] == [(6, ErrorCode.NONE), (7, ErrorCode.NONE)]
    place.moved(8)
    assert len(told) == 4 and len(place.watchers) == 1
    place.moved(9)
    assert told[4:] == [(9, ErrorCode.NONE)]
    assert place.watchers == [], "nobody waits any more"
    markers.wait(place, 10, lambda error: told.append((10, error)))  # type: ignore[arg-type]
    place.moved(10)
    assert told[5:] == [(10, ErrorCode.NONE)]


@pytest.mark.parametrize(
    ("gone", "told_of_it"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_of_what_is_gone_nothing_more_is_waited_for(gone: ErrorCode, told_of_it: ErrorCode) -> None:
    """Of a deleted topic there is nobody left to tell; of what another node leads by now, it is to be told."""
    place = Place()
    _, told = waiting(place, 6, 7)
    place.discarded, place.gone = True, gone
    place.moved(6)
    assert told == [(6, ErrorCode.NONE), (7, told_of_it)]
    assert place.watchers == []


def test_who_waits_may_write_the_next_marker_at_once() -> None:
    place, told = Place(), list[ErrorCode]()
    releases: Any = SimpleNamespace(put=lambda deliver, answer: deliver(answer))
    markers = UncommittedMarkers(releases)
    markers.wait(place, 6, lambda _: markers.wait(place, 7, told.append))  # type: ignore[arg-type]
    place.moved(6)
    assert told == [] and len(place.watchers) == 1
    place.moved(7)
    assert told == [ErrorCode.NONE] and place.watchers == []


@pytest.mark.parametrize(("known", "used"), [(-1, 5), (4, 5), (5, 5), (6, 6)])
def test_a_marker_of_ours_is_never_behind_what_a_partition_knows(known: int, used: int) -> None:
    producers = SimpleNamespace(coordinator_epoch=lambda producer_id: known if producer_id == 7 else 99)
    partition: Any = SimpleNamespace(derived=SimpleNamespace(producers=producers))
    marker = Marker(7, 1, True, 5, 2)
    assert _not_fenced(partition, marker) == Marker(7, 1, True, used, 2)
    assert _not_fenced(None, marker) is marker


@pytest.mark.parametrize(("said", "told"), [(14, 6), (15, 6), (16, 6), (47, 47), (-1, -1)])
def test_what_a_group_says_of_a_marker(said: int, told: int) -> None:
    heard: list[ErrorCode] = []
    put: list[Any] = []
    releases: Any = SimpleNamespace(put=lambda deliver, answer: put.append(answer))
    ticket = _MarkerTicket(releases, heard.append)
    ticket.refuse(ErrorCode(said))
    assert heard == [ErrorCode(told)]
    ticket.release(ErrorCode.NONE)
    assert put == [ErrorCode.NONE]


def test_a_marker_for_groups_that_are_not_here_yet() -> None:
    def not_ready(*_: Any) -> None:
        raise NotReady(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    loading = SimpleNamespace(submit=not_ready)
    topic = SimpleNamespace(
        name=CONSUMER_OFFSETS, topic_id=bytes(16), partitions=SimpleNamespace(is_closed=lambda _: False)
    )
    published: list[int] = []
    for shard in (None, loading):
        parts: dict[str, Any] = {
            "topics": SimpleNamespace(by_id=lambda _: topic, by_name=lambda _: topic),
            "groups": SimpleNamespace(shard=lambda _, shard=shard: shard, publish=published.append),
            "environment": SimpleNamespace(time_slice=lambda: None),
        }
        heard: list[ErrorCode] = []
        writer = LocalMarkerWriter(**parts, publish=lambda _: None)
        writer.write(CONSUMER_OFFSETS, 0, None, Marker(7, 1, True, 5, 2), heard.append)
        assert heard == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert published == []
