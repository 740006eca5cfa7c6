"""The model is able to disagree: with a recorded story it does not, with one field of one answer changed it does.

Each alteration is one thing that a broker could get wrong. The rule that names it must object.
"""

import copy
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.fetch import AbortedTransaction
from protocol.records.batch import read_header, seal
from tests.opinion.judge import judge
from tests.opinion.trace import Circumstances, Exchange, Trace
from tests.scenarios.at_random.comparing import scenario
from tests.scenarios.places import virtual

STORY = """
topic t partitions=2
ida InitProducerId transactional_id=null
ida Produce t-0 one two idempotent at=T+1
ida Produce t-0 three idempotent at=T+2
ida Produce t-0 again idempotent
ida Produce t-0 nine idempotent seq=9
alice InitProducerId tx
alice Produce t-0 kept at=T+3
alice Produce t-1 kept
bob ListOffsets t-0=latest
bob ListOffsets t-0=latest read_committed
alice TxnOffsetCommit t-0=5 group_id=g
carl OffsetFetch v7 g t-0 require_stable=true
alice EndTxn commit
carl OffsetFetch v7 g t-0 require_stable=true
alice Produce t-0 dropped
alice Produce t-1 dropped
bob Fetch t-0 t-1 read_committed
alice EndTxn abort
alice EndTxn abort
carl OffsetCommit t-0=7 group_id=g
carl OffsetFetch v7 g t-0 t-1
bob Fetch t-0 t-1 read_committed
bob Fetch t-0 t-1
bob Fetch t-0 t-1 max_bytes=1
bob Fetch t-0@4 partition_max_bytes=1
bob Fetch t-0@400
bob ListOffsets t-0=latest
bob ListOffsets t-0=latest read_committed
bob ListOffsets t-0=earliest
bob ListOffsets t-0=T+2
alice AddPartitionsToTxn v3 t-0
admin DescribeTransactions tx
zoe InitProducerId tx
alice Produce t-0 late
alice EndTxn commit
zoe InitProducerId ty
mia JoinGroup m
mia JoinGroup m
mia SyncGroup M1=mine
max JoinGroup m
max sends JoinGroup m
mia JoinGroup
max hears
mia SyncGroup M1=one M2=two
max SyncGroup
mia Heartbeat
mia Heartbeat generation=1
log t-0
log t-1
bob DeleteRecords t-0=2
bob ListOffsets t-0=earliest
bob DeleteRecords t-0=400
"""
CIRCUMSTANCES = Circumstances(level=2, offsets_partitions=3)


@pytest.fixture(scope="module")
def recorded() -> Trace:
    trace = Trace()
    virtual.play(scenario("altered", 2, STORY.strip().splitlines()), 2, trace)
    trace.now = lambda: 0.0
    return trace


def test_the_story_as_it_was_answered_is_allowed(recorded: Trace) -> None:
    assert [str(one) for one in judge(recorded, CIRCUMSTANCES)] == []


Alteration = tuple[str, str, int, Callable[[Exchange], None]]
"""(rule that must object, API, which of its exchanges: counted among those of named clients, the change)."""


def entry(exchange: Exchange, place: int = 0) -> Any:
    """A partition in a response, counted over its topics."""
    answer = exchange.response
    topics = getattr(answer, "topics", None) or answer.responses
    names = ("partition_responses", "partitions")
    return [one for topic in topics for name in names for one in getattr(topic, name, ())][place]


def put(name: str, value: Any, place: int = 0) -> Callable[[Exchange], None]:
    def change(exchange: Exchange) -> None:
        setattr(entry(exchange, place), name, value)

    return change


def say(**fields: Any) -> Callable[[Exchange], None]:
    def change(exchange: Exchange) -> None:
        for name, value in fields.items():
            assert hasattr(exchange.response, name)
            setattr(exchange.response, name, value)

    return change


def records(change: Callable[[bytes], bytes], place: int = 0) -> Callable[[Exchange], None]:
    def changed(exchange: Exchange) -> None:
        one = entry(exchange, place)
        one.records = change(bytes(one.records))

    return changed


def without_batch(index: int) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        parts = split(data)
        return b"".join(parts[:index] + parts[index + 1 :])

    return change


def split(data: bytes) -> list[bytes]:
    parts = []
    while data:
        size = read_header(data).size
        parts.append(data[:size])
        data = data[size:]
    return parts


def with_header(index: int, form: str, at: int, value: int) -> Callable[[bytes], bytes]:
    """One batch says something else, under a checksum that is right."""

    def change(data: bytes) -> bytes:
        parts = [bytearray(part) for part in split(data)]
        struct.pack_into(form, parts[index], at, value)
        seal(parts[index])
        return b"".join(parts)

    return change


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def list_aborted(*found: tuple[int, int]) -> Callable[[Exchange], None]:
    return put("aborted_transactions", [AbortedTransaction(producer_id=pid, first_offset=at) for pid, at in found])


def in_other_order(exchange: Exchange) -> None:
    exchange.response.responses[0].partitions.reverse()


def of_group(**fields: Any) -> Callable[[Exchange], None]:
    def change(exchange: Exchange) -> None:
        for name, value in fields.items():
            setattr(entry(exchange), name, value)

    return change


def described(**fields: Any) -> Callable[[Exchange], None]:
    def change(exchange: Exchange) -> None:
        for name, value in fields.items():
            setattr(exchange.response.transaction_states[0], name, value)

    return change


FETCHES = {"held back": 0, "committed": 1, "all": 2, "small": 3, "one": 4, "too far": 5}
FENCED, OUT_OF_ORDER = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
ALTERATIONS: list[Alteration] = [
    ("log.overlap", "Produce", 0, put("base_offset", 1)),
    ("produce.offset", "Produce", 2, put("base_offset", 3)),
    ("produce.refused", "Produce", 2, put("error_code", OUT_OF_ORDER)),
    ("produce.refused", "Produce", 3, put("error_code", FENCED)),
    ("id.answer", "Produce", 4, put("error_code", FENCED)),
    ("id.answer", "Produce", 8, put("error_code", OUT_OF_ORDER)),
    ("id.answer", "InitProducerId", 1, say(producer_epoch=1)),
    ("id.answer", "InitProducerId", 2, say(producer_epoch=3)),
    ("id.answer", "TxnOffsetCommit", 0, put("error_code", ErrorCode.UNKNOWN_MEMBER_ID)),
    ("id.answer", "EndTxn", 0, say(error_code=ErrorCode.INVALID_TXN_STATE)),
    ("id.answer", "EndTxn", 0, say(producer_epoch=0)),
    ("id.answer", "EndTxn", 3, say(error_code=ErrorCode.NONE)),
    ("id.answer", "EndTxn", 3, say(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)),
    ("id.answer", "DescribeTransactions", 0, described(transaction_state="Empty")),
    ("id.answer", "DescribeTransactions", 0, described(topics=[])),
    ("init.fresh", "InitProducerId", 3, say(producer_id=0)),
    ("fetch.watermark", "Fetch", FETCHES["all"], put("high_watermark", 2)),
    ("fetch.watermark", "Fetch", FETCHES["all"], put("high_watermark", 1000)),
    ("fetch.stable", "Fetch", FETCHES["held back"], put("last_stable_offset", 6)),
    ("fetch.stable", "Fetch", FETCHES["committed"], put("last_stable_offset", 5)),
    ("fetch.beyond", "Fetch", FETCHES["held back"], put("last_stable_offset", 4)),
    ("fetch.records", "Fetch", FETCHES["all"], records(without_batch(1))),
    ("fetch.records", "Fetch", FETCHES["all"], records(without_batch(0))),
    ("fetch.nothing", "Fetch", FETCHES["all"], put("records", b"")),
    ("fetch.bytes", "Fetch", FETCHES["all"], records(flipped)),
    ("fetch.bytes", "Fetch", FETCHES["all"], lambda one: setattr(one.request, "max_bytes", 1)),
    ("fetch.order", "Fetch", FETCHES["all"], in_other_order),
    ("fetch.order", "Fetch", FETCHES["one"], put("partition_index", 1)),
    ("fetch.aborted", "Fetch", FETCHES["committed"], list_aborted()),
    ("fetch.aborted", "Fetch", FETCHES["committed"], list_aborted((1, 3))),
    ("fetch.aborted", "Fetch", FETCHES["all"], list_aborted((1, 3))),
    ("fetch.range", "Fetch", FETCHES["one"], put("error_code", ErrorCode.OFFSET_OUT_OF_RANGE)),
    ("log.changed", "Fetch", FETCHES["all"], records(with_header(0, ">h", 51, 3))),
    ("list.latest", "ListOffsets", 0, put("offset", 2)),
    ("list.stable", "ListOffsets", 1, put("offset", 4)),
    ("list.earliest", "ListOffsets", 4, put("offset", 3)),
    ("list.time", "ListOffsets", 5, put("offset", 1)),
    ("delete.start", "DeleteRecords", 0, put("low_watermark", 1)),
    ("delete.range", "DeleteRecords", 0, put("error_code", ErrorCode.OFFSET_OUT_OF_RANGE)),
    ("offsets.lost", "OffsetFetch", 1, of_group(committed_offset=-1, metadata="")),
    ("offsets.unknown", "OffsetFetch", 1, of_group(committed_offset=6)),
    ("offsets.unknown", "OffsetFetch", 0, of_group(committed_offset=5, error_code=0)),
    ("offsets.pending", "OffsetFetch", 0, of_group(error_code=0)),
    ("offsets.old", "OffsetFetch", 2, of_group(committed_offset=5)),
    ("offsets.unstable", "OffsetFetch", 2, of_group(error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)),
    ("group.generation", "JoinGroup", 1, say(generation_id=9)),
    ("group.generation", "JoinGroup", 4, say(leader="somebody")),
    ("group.members", "JoinGroup", 4, lambda one: one.response.members.clear()),
    ("group.assignment", "SyncGroup", 2, say(assignment=b"one")),
    ("group.fenced", "Heartbeat", 1, say(error_code=ErrorCode.NONE)),
]


def altered(recorded: Trace, api: str, index: int, change: Callable[[Exchange], None]) -> Trace:
    made = Trace(exchanges=[copy.copy(one) for one in recorded.exchanges], ticks=recorded.ticks)
    named = [one for one in made.of(api) if not one.connection.startswith("console")]
    chosen = named[index]
    chosen.request, chosen.response = copy.deepcopy((chosen.request, _as_bytes(chosen.response)))
    change(chosen)
    return made


def _as_bytes(answer: Any) -> Any:
    """A view of a frame cannot be copied."""
    for topic in getattr(answer, "responses", ()):
        for one in getattr(topic, "partitions", ()):
            one.records = bytes(one.records or b"")
    return answer


def test_every_rule_is_seen_to_object() -> None:
    """Here, or in the logs that are made by hand."""
    folder = Path(__file__).parent
    named = {
        rule
        for path in folder.glob("*.py")
        if not path.name.startswith("test_")
        for rule in re.findall(r'(?:object\(\s*|yield )"([a-z]+\.[a-z]+)"', path.read_text())
    }
    by_hand = set(re.findall(r'"([a-z]+\.[a-z]+)"', (folder / "test_logs_by_hand.py").read_text()))
    assert len(named) > 30 and named == ({one[0] for one in ALTERATIONS} | by_hand)


@pytest.mark.parametrize(
    "alteration", ALTERATIONS, ids=[f"{one[0]}-{one[1]}-{number}" for number, one in enumerate(ALTERATIONS)]
)
def test_a_changed_answer_is_objected_to(recorded: Trace, alteration: Alteration) -> None:
    rule, api, index, change = alteration
    found = judge(altered(recorded, api, index, change), CIRCUMSTANCES)
    assert rule in {one.rule for one in found}, [str(one) for one in found]
