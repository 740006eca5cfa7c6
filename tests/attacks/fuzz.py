"""Fuzz of every API in every version we serve: one seed is one case, whatever was sent before it.

A seed decides the API and version (in turn, so that every stretch of seeds meets all), which of its fields lie, what is
wrong with header and frame, and how the bytes reach the broker. A last ApiVersions behind them says when everything has
been answered. What is checked of an answer: it belongs to a request of this connection, in order, and can be read.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from struct import pack

from broker.api.api_families import load_handlers
from protocol.codec import decode
from protocol.errors import ProtocolError
from protocol.framing import API_VERSIONS, RESPONSES
from protocol.messages.header import ResponseHeader
from protocol.schema import schema_of
from tests.attacks import wire
from tests.attacks.structures import Structure, World
from tests.attacks.wire import Hangup, Link
from tests.harness.framing import request_frame

LAST = 0x7FFFFFF0
"""The correlation id of the ApiVersions behind a case."""
WAIT_S = 0.1
"""How long a case waits for answers that may be long in coming; nothing is concluded from it."""
DESTRUCTIVE = {20, 21, 27, 33, 37, 44}
"""APIs with which an operator may do harm to internal topics: their names are left out."""
DELIVERIES = ("whole", "whole", "one segment", "pieces", "half", "unread", "cut", "over-long", "short", "long")


@dataclass(frozen=True)
class Sent:
    """One request of a case."""

    api_key: int
    version: int
    correlation: int
    frame: bytes
    lies: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """What a seed says."""

    seed: int
    delivery: str
    requests: tuple[Sent, ...]

    def __str__(self) -> str:
        names = load_handlers()
        parts = [
            f"{names[sent.api_key].name} v{sent.version} ({', '.join(sent.lies) or 'as it is'})"
            for sent in self.requests
        ]
        return f"seed {self.seed}, {self.delivery}: {'; '.join(parts)}"


def all_versions() -> list[tuple[int, int]]:
    """(API, version) of everything we serve."""
    return [(key, version) for key, entry in sorted(load_handlers().items()) for version in entry.versions]


PAIRS = all_versions()


def plan_of(seed: int, world: World) -> Plan:
    draw = Random(f"{seed}-plan")
    delivery = draw.choice(DELIVERIES)
    count = draw.randint(2, 5) if delivery in ("one segment", "unread", "pieces") else 1
    chosen = [PAIRS[seed % len(PAIRS)], *(draw.choice(PAIRS) for _ in range(count - 1))]
    requests = [
        _request(key, version, correlation, seed * 8 + correlation, world, draw)
        for correlation, (key, version) in enumerate(chosen)
    ]
    return Plan(seed, delivery, tuple(requests))


def _request(key: int, version: int, correlation: int, seed: int, world: World, draw: Random) -> Sent:
    request = load_handlers()[key].request
    counted = Structure(request, version, world, seed, frozenset())
    counted.body()
    places = range(max(1, counted.fields))
    mutated = frozenset(draw.sample(places, min(len(places), draw.choice((0, 1, 1, 2, 3)))))
    structure = Structure(request, version, world, seed, mutated)
    structure.spares_internal_topics = key in DESTRUCTIVE
    body = structure.body()
    flexible = version >= schema_of(request).flexible_since
    client_ids = (b"fuzz",) * 12 + (None, b"", b"\xff\xfe", b"x" * 30_000)
    client_id = draw.choice(client_ids)
    header = pack(">hhi", key, version, correlation)
    header += pack(">h", -1) if client_id is None else pack(">h", len(client_id)) + client_id
    if flexible:
        header += draw.choice((b"\x00",) * 10 + (b"\x01\x63\x02ab", b"\x05"))
    lies = structure.lies + ([f"client id {client_id[:4]!r}"] if client_id in client_ids[-2:] else [])
    return Sent(key, version, correlation, header + body, tuple(lies))


def deliver(plan: Plan, bootstrap: str, greet: Callable[[Link], None] = lambda link: None) -> None:
    """Send a case and check what comes back. Raises `AssertionError` where an answer is none. `greet` goes before."""
    draw = Random(f"{plan.seed}-delivery")
    data = b"".join(_with_length(sent.frame, plan.delivery, draw) for sent in plan.requests)
    data += request_frame(wire.versions(), 0, LAST)
    with Link(bootstrap, receive_buffer=4096 if plan.delivery == "unread" else None) as link:
        greet(link)
        link.socket.settimeout(WAIT_S)
        if plan.delivery in ("half", "cut"):
            link.send_if_open(data[: draw.randrange(len(data))])
            return
        if plan.delivery in ("short", "long"):  # Where the next request begins is not ours to say.
            link.send_if_open(data)
            return
        if plan.delivery == "pieces":
            pieces = sorted(draw.randrange(len(data)) for _ in range(4))
            for start, end in zip([0, *pieces], [*pieces, len(data)], strict=True):
                link.send_if_open(data[start:end])
        else:
            link.send_if_open(data)
        if plan.delivery != "unread":
            _check_answers(link, plan)


def _with_length(frame: bytes, delivery: str, draw: Random) -> bytes:
    if delivery == "over-long":
        frame += draw.randbytes(draw.choice((1, 4, 100)))
    lies = {"short": -draw.choice((1, 4, len(frame))), "long": draw.choice((1, 4, 1 << 20))}
    return pack(">i", len(frame) + lies.get(delivery, 0)) + frame


def _check_answers(link: Link, plan: Plan) -> None:
    waiting = list(plan.requests)
    with suppress(Hangup, TimeoutError):
        while True:
            frame = link.frame()
            correlation = wire.correlation_of(frame)
            if correlation == LAST:
                return
            while waiting and waiting[0].correlation != correlation:
                waiting.pop(0)
            assert waiting, f"an answer to nobody: {correlation}"
            _check_readable(waiting.pop(0), frame)


def _check_readable(sent: Sent, frame: bytes) -> None:
    flexible = sent.version >= schema_of(load_handlers()[sent.api_key].request).flexible_since
    with_tags = flexible and sent.api_key != API_VERSIONS
    try:
        _, at = decode(ResponseHeader, 1 if with_tags else 0, frame)
        _, end = decode(RESPONSES[sent.api_key], sent.version, frame, at)
    except ProtocolError as error:
        raise AssertionError(f"an answer that cannot be read: {error}; {frame[:200].hex()}") from error
    assert end == len(frame), f"{len(frame) - end} bytes behind an answer"


def made_world(bootstrap: str) -> World:
    """Topics, ids and producers for the cases to name."""
    world = World()
    with Link(bootstrap) as link:
        wire.make_topic(link, "fuzz-0", 2)
        wire.make_topic(link, "fuzz-1")
        wire.make_topic(link, "fuzz-compacted", cleanup_policy="compact")
        for name in ("fuzz-0", "fuzz-1"):
            wire.produced(link.request(wire.produce(name, wire.batch_of([b"one", b"two"])), 9))
        known = link.request(wire.metadata("fuzz-0", "fuzz-1", "fuzz-compacted"), 12)
        world.topic_ids += [topic.topic_id for topic in known.topics]
        wire.wait_for_coordinator(link, "fuzz-group", 0)
        world.producers += [wire.initialised(link, name) for name in ("fuzz-id-0", "fuzz-id-1", None)]
    return world
