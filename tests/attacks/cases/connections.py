"""Attacks with connections: many, silent, slow, greedy, and those that say nothing that can be read."""

from contextlib import suppress
from struct import pack

from protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.groups import JoinGroupRequest, JoinGroupRequestProtocol
from tests.attacks import wire
from tests.attacks.registry import case
from tests.attacks.trial import Trial
from tests.attacks.wire import Hangup, Link
from tests.harness.framing import request_frame

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4


@case(short={"rounds": 100}, long={"rounds": 10_000})
def nothing(trial: Trial, *, rounds: int) -> None:
    """No attack: the honest client beside one more like it. What the others are compared with."""
    _some_honest_rounds(trial, rounds)


@case(
    short={"connections": 600},
    long={"connections": 9_500},
    descriptor_limit=400,
    peak_mb=60,
)
def idle_connections(trial: Trial, *, connections: int) -> None:
    """More connections than the process has descriptors, each with nothing to say."""
    refused = 0
    early = trial.connect()
    wire.make_topic(early, "early")
    for _ in range(connections):
        try:
            trial.connect(seconds=5)
        except (TimeoutError, OSError, Hangup):
            refused += 1
    trial.note(f"{refused} not connected")
    for _ in range(5):
        code, _ = wire.produced(early.request(wire.produce("early", wire.batch_of([b"v"])), 9))
        trial.require(code == 0, f"who was there before the crowd got the error {code}")
    trial.hang_up()
    trial.wait_until(lambda: _is_served(trial), "a new client is served when the others have gone")


@case(short={"connections": 300}, long={"connections": 20_000})
def connection_storm(trial: Trial, *, connections: int) -> None:
    """Connections that are opened and closed at once, with a few bytes of a request or none."""
    request = request_frame(wire.versions(), 0, 1)
    for number in range(connections):
        link = trial.connect()
        if number % 3:
            link.send(request[: number % len(request)])
        trial.hang_up()


@case(
    short={"topics": 40, "requests": 200},
    long={"topics": 1_000, "requests": 14_500},
    prepare=lambda trial, topics, requests: _make_topics(trial, topics),
    peak_mb=150,
)
def pipelined_metadata(trial: Trial, *, topics: int, requests: int) -> None:
    """One connection sends one small Metadata after the other, about all topics, and reads once it has sent all."""
    link = trial.connect()
    with suppress(TimeoutError):
        link.socket.settimeout(2)
        link.send(request_frame(wire.metadata(), 1, 7) * requests)
    link.socket.settimeout(wire.PATIENCE_S)
    for _ in range(min(requests, 50)):
        assert wire.correlation_of(link.frame()) == 7
    trial.note(f"{topics} topics")


def _make_topics(trial: Trial, topics: int) -> None:
    with Link(trial.bootstrap) as link:
        made = link.request(wire.create_topics([f"many-{number}" for number in range(topics)]), 5)
        assert not any(topic.error_code for topic in made.topics)


@case(short={"batches": 300}, long={"batches": 20_000})
def unacknowledged_producer(trial: Trial, *, batches: int) -> None:
    """A producer with acks=0 sends batches of 10 KB as fast as the socket takes them."""
    link = trial.connect()
    wire.make_topic(link, "flood")
    request = request_frame(wire.produce("flood", wire.batch_of([bytes(10_000)]), acks=0), 9, 1)
    for _ in range(batches // 10):
        link.send(request * 10)
    written = batches // 10 * 10
    end = wire.list_offsets("flood", -1)
    trial.wait_until(
        lambda: link.request(end, 1).topics[0].partitions[0].offset == written, f"{written} batches are visible"
    )


@case(short={"connections": 10, "requests": 100}, long={"connections": 10, "requests": 2_000}, peak_mb=160)
def unread_answers(trial: Trial, *, connections: int, requests: int) -> None:
    """Small requests with large answers, DescribeConfigs of the broker with its documentation, that nobody reads."""
    resources = [DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name="1", configuration_keys=None)]
    message = DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=True)
    request = request_frame(message, 4, 1)
    for _ in range(connections):
        link = trial.connect(receive_buffer=4096, seconds=2)
        link.send_if_open(request * requests)
    _some_honest_rounds(trial, 20)


@case(short={"polls": 200}, long={"polls": 5_000}, kept_mb=32)
def vanishing_long_polls(trial: Trial, *, polls: int) -> None:
    """Fetches that wait ten minutes for a record, from clients that are gone a moment later."""
    with Link(trial.bootstrap) as link:
        wire.make_topic(link, "quiet")
    request = request_frame(wire.fetch("quiet", 0, max_wait_ms=600_000), 11, 1)
    for number in range(polls):
        trial.connect().send(request)
        if number % 100 == 99:
            trial.hang_up()


@case(
    short={"frames": 4, "record_bytes": 900_000},
    long={"frames": 64, "record_bytes": 900_000},
    settings={"tallystick.request.memory.bytes": str(4 << 20)},
    peak_mb=120,
)
def half_sent_frames(trial: Trial, *, frames: int, record_bytes: int) -> None:
    """Large frames whose second half never comes, more than there is memory for, beside an honest producer of large
    records."""
    size = 4 << 20
    for _ in range(frames):
        link = trial.connect(seconds=1)
        link.send_if_open(pack(">i", size) + bytes(size // 2))
    honest = trial.connect(seconds=10)
    wire.make_topic(honest, "large")
    for _ in range(5):
        code, _ = wire.produced(honest.request(wire.produce("large", wire.batch_of([bytes(record_bytes)])), 9))
        trial.require(code == 0, f"an honest producer of large records got the error {code}")


@case(short={"connections": 20, "sent_bytes": 40}, long={"connections": 500, "sent_bytes": 200})
def byte_by_byte(trial: Trial, *, connections: int, sent_bytes: int) -> None:
    """Requests that arrive one byte at a time, on many connections in turn."""
    request = request_frame(wire.metadata("no-such-topic"), 9, 1, "a-client-with-a-rather-long-name" * 8)
    links = [trial.connect() for _ in range(connections)]
    for at in range(min(sent_bytes, len(request) - 1)):
        for link in links:
            link.send(request[at : at + 1])


@case(
    short={"frames": 300},
    long={"frames": 5_000},
    full_pipe=True,
    on_kafka=False,
)
def unread_log(trial: Trial, *, frames: int) -> None:
    """Frames that cannot be read, each worth a line in the log, while nobody reads the broker's standard error."""
    for number in range(frames):
        link = trial.connect()
        link.send(wire.framed(pack(">hhih", 99, 0, number, -1)))
        trial.require(link.ended(), "a frame that cannot be read was answered")
        trial.hang_up()


@case(short={"frames": 300}, long={"frames": 20_000})
def unreadable_frames(trial: Trial, *, frames: int) -> None:
    """Frames that cannot be read, as fast as connections can be made; the log must not grow with them for ever."""
    before = trial.broker.log.stat().st_size
    for number in range(frames):
        link = trial.connect()
        link.send(wire.framed(pack(">hhih", 0, 1, number, 32_000) + b"\xff" * 20))
        trial.hang_up()
    grown = trial.broker.log.stat().st_size - before
    trial.note(f"{grown / max(1, frames):.0f} bytes of log a frame")
    trial.require(trial.kafka or grown < 20_000 + 20 * frames, f"the log grew by {grown} bytes")


@case(short={"members": 60}, long={"members": 3_000}, peak_mb=100)
def nameless_members(trial: Trial, *, members: int) -> None:
    """Members that request an id and never come back, each with a client id of 32 KB."""
    link = trial.connect()
    wire.wait_for_coordinator(link, "crowd", 0)
    for number in range(members):
        joining = JoinGroupRequest(
            group_id="crowd",
            session_timeout_ms=1_800_000,
            rebalance_timeout_ms=1_800_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        with suppress(Hangup):
            link.request(joining, 5, client_id=f"{number:05}" + "x" * 32_000)


def _some_honest_rounds(trial: Trial, rounds: int) -> None:
    """The attack lasts for at least so many rounds of somebody else."""
    link = trial.connect()
    for _ in range(rounds):
        link.request(wire.metadata("honest"), 9)


def _is_served(trial: Trial) -> bool:
    try:
        with Link(trial.bootstrap, seconds=2) as link:
            return not link.request(wire.versions(), 0).error_code
    except (Hangup, OSError):
        return False
