"""Requests from our own message tables, written by structure, with lies.

A request is drawn twice from one seed: once to count its fields, and once to write it with some of them mutated. So a
mutation is always at a place where there is a field: a number at the end of its range, a string that is null, empty,
huge or not UTF-8, an array whose length is a lie, an element that is repeated, a tag section that says too much. The
values in between are those that make sense to a broker, for what is refused at once reaches nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from struct import pack

from protocol.primitives import append_uvarint
from protocol.schema import FieldSchema, MessageSchema, Primitive, fields_of, schema_of
from tests.attacks.lying_batches import any_batch

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
_CODES = {"int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "uint16": ">H", "uint32": ">I"}
_TEXTS = ("", "a", "\x00", "../..", "x" * 249, "x" * 5_000, "é" * 100, "__consumer_offsets", "__transaction_state", "*")
_RAW = (b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\x00" * 300)
WAITS = {"max_wait_ms": 5, "timeout_ms": 1_000, "rebalance_timeout_ms": 100, "session_timeout_ms": 1_000}
"""What a client waits for is kept short in what is not mutated, for a seed is to end soon."""


@dataclass
class World:
    """What the broker knows by name, to be drawn from."""

    topics: list[str] = field(default_factory=lambda: ["fuzz-0", "fuzz-1", "fuzz-compacted", "fuzz-new"])
    topic_ids: list[bytes] = field(default_factory=lambda: [bytes(16)])
    groups: tuple[str, ...] = ("fuzz-group", "fuzz-other-group", "")
    transactional_ids: tuple[str, ...] = ("fuzz-id-0", "fuzz-id-1", "")
    producers: list[tuple[int, int]] = field(default_factory=lambda: [(-1, -1), (0, 0)])
    setting_names: tuple[str, ...] = ("cleanup.policy", "segment.bytes", "retention.ms", "max.message.bytes", "no.such")
    setting_values: tuple[str, ...] = ("compact", "delete", "-1", "0", "9223372036854775808", "nonsense", "")


class Structure:
    """Writes one request of one version; `mutated` are the numbers of the fields that lie."""

    def __init__(self, request: type, version: int, world: World, seed: int, mutated: frozenset[int]) -> None:
        self._schema: MessageSchema = schema_of(request)
        self._version = version
        self._flexible = version >= self._schema.flexible_since
        self._world = world
        self._draw = Random(f"{seed}-values")
        self._lie = Random(f"{seed}-lies")
        self._mutated = mutated
        self.spares_internal_topics = False
        self.fields = 0
        self.lies: list[str] = []

    def body(self) -> bytes:
        out = bytearray()
        self._struct(out, self._schema.fields, self._schema.name)
        return bytes(out)

    def _is_mutated(self, name: str) -> bool:
        self.fields += 1
        return self.fields - 1 in self._mutated

    def _struct(self, out: bytearray, fields: tuple[FieldSchema, ...], name: str) -> None:
        tagged: list[tuple[int, bytes]] = []
        for declared in fields:
            if not declared.in_version(self._version):
                continue
            if declared.tagged_in(self._version):
                if self._draw.random() < 0.5:
                    content = bytearray()
                    self._value(content, declared)
                    tagged.append((declared.spec.tag or 0, bytes(content)))
            else:
                self._value(out, declared)
        if self._flexible:
            self._tag_section(out, tagged, name)

    def _tag_section(self, out: bytearray, tagged: list[tuple[int, bytes]], name: str) -> None:
        count = len(tagged)
        if self._is_mutated(name):
            kind = self._lie.choice(("unknown", "repeated", "more than there are", "too long"))
            self.lies.append(f"tags of {name}: {kind}")
            if kind == "unknown":
                tagged = [
                    *tagged,
                    (self._lie.choice((1, 99, 0xFFFFFFF)), self._lie.randbytes(self._lie.randint(0, 90))),
                ]
                count += 1
            elif kind == "repeated":
                tagged, count = [*tagged, (0, b""), (0, b"\x01")], count + 2
            elif kind == "more than there are":
                count = self._lie.choice((count + 1, 200, 0xFFFFFFFF))
            else:
                tagged, count = [*tagged, (5, b"")], count + 1
        append_uvarint(out, count)
        for tag, content in tagged:
            append_uvarint(out, tag)
            append_uvarint(out, len(content))
            out += content

    def _value(self, out: bytearray, declared: FieldSchema) -> None:
        if declared.is_array:
            self._array(out, declared)
        elif isinstance(declared.element, Primitive):
            self._primitive(out, declared, declared.element)
        elif declared.nullable_in(self._version) and self._draw.random() < 0.3:
            out += b"\xff"
        else:
            if declared.nullable_in(self._version):
                out += b"\x01"
            self._struct(out, fields_of(declared.element), declared.name)

    def _array(self, out: bytearray, declared: FieldSchema) -> None:
        elements = self._draw.choice((0, 1, 1, 1, 2, 3))
        claimed: int | None = None
        repeated = 1
        if self._is_mutated(declared.name):
            kind = self._lie.choice(("null", "none", "huge claim", "one more", "one less", "repeated"))
            self.lies.append(f"{declared.name}[]: {kind}")
            if kind == "null":
                self._length(out, -1)
                return
            elements = 0 if kind == "none" else max(1, elements)
            repeated = self._lie.choice((2, 50, 3_000)) if kind == "repeated" else 1
            claims = {"huge claim": self._lie.choice((250_001, 1 << 30, (1 << 31) - 1)), "one more": 1, "one less": -1}
            claimed = claims.get(kind)
            if claimed in (1, -1):
                claimed = elements + claimed
        content = bytearray()
        for _ in range(elements):
            if isinstance(declared.element, Primitive):
                self._primitive(content, declared, declared.element)
            else:
                self._struct(content, fields_of(declared.element), declared.name)
        self._length(out, elements * repeated if claimed is None else claimed)
        out += content * repeated

    def _primitive(self, out: bytearray, declared: FieldSchema, wire: Primitive) -> None:
        lies = self._is_mutated(declared.name)
        if wire.name in _BITS:
            self._number(out, declared.name, wire.name, lies)
        elif wire.name == "bool":
            out.append(self._lie.choice((2, 255)) if lies else self._draw.randint(0, 1))
        elif wire.name == "float64":
            out += pack(">d", float("nan") if lies else self._draw.random())
        elif wire.name == "uuid":
            out += self._lie.randbytes(16) if lies else self._draw.choice(self._world.topic_ids)
        else:
            self._sized(out, declared, wire.name, lies)

    def _number(self, out: bytearray, name: str, kind: str, lies: bool) -> None:
        signed = kind.startswith("int")
        half = 1 << (_BITS[kind] - 1)
        low, high = (-half, half - 1) if signed else (0, 2 * half - 1)
        if lies:
            value = self._lie.choice((low, high, low + 1, high - 1, max(low, -1), 0, self._lie.randint(low, high)))
            self.lies.append(f"{name}={value}")
        else:
            value = min(high, max(low, self._sensible(name)))
        out += pack(_CODES[kind], value)

    def _sensible(self, name: str) -> int:
        producer = self._draw.choice(self._world.producers)
        known = {
            "acks": self._draw.choice((-1, 0, 1)),
            "producer_id": producer[0],
            "v3_and_below_producer_id": producer[0],
            "producer_epoch": producer[1],
            "v3_and_below_producer_epoch": producer[1],
            "min_bytes": self._draw.choice((0, 1)),
            "max_bytes": 1 << 20,
            "partition_max_bytes": 1 << 20,
            "resource_type": 2,
            "num_partitions": self._draw.choice((-1, 1, 2)),
            "replication_factor": 1,
            "transaction_timeout_ms": 60_000,
            "session_epoch": self._draw.choice((-1, 0, 1)),
            "replica_id": -1,
            "current_leader_epoch": -1,
            "isolation_level": self._draw.choice((0, 1)),
            "timestamp": self._draw.choice((-1, -2, -3, 0, 1_700_000_000_000)),
            "generation_id_or_member_epoch": -1,
            "retention_time_ms": -1,
            "feature_update": 1,
            "max_version_level": 2,
            "upgrade_type": 1,
            "coordinator_epoch": self._draw.choice((0, 1)),
        }
        return WAITS.get(name, known.get(name, self._draw.choice((0, 0, 0, 1, -1))))

    def _sized(self, out: bytearray, declared: FieldSchema, kind: str, lies: bool) -> None:
        """Strings, bytes and records, which all have a length in front."""
        short = kind == "string"
        if lies:
            how = self._lie.choice(("null", "text", "raw", "longer than it is", "shorter than it is", "random"))
            self.lies.append(f"{declared.name}: {how}")
            if how == "null":
                self._length(out, -1, short=short)
                return
            choices: dict[str, Callable[[], bytes]] = {
                "text": lambda: self._lie.choice(_TEXTS[:-3] if self.spares_internal_topics else _TEXTS).encode(),
                "raw": lambda: self._lie.choice(_RAW),
                "random": lambda: self._lie.randbytes(self._lie.choice((1, 61, 300, 20_000))),
            }
            content = choices.get(how, lambda: b"some content")()
            claims = {"longer than it is": self._lie.choice((1, 30_000)), "shorter than it is": -1}
            self._length(out, len(content) + claims.get(how, 0), short=short)
            out += content
            return
        if declared.nullable_in(self._version) and self._draw.random() < 0.2:
            self._length(out, -1, short=short)
            return
        if kind == "string":
            content = self._text(declared.name).encode()
        else:
            content = (
                any_batch(self._draw) if kind == "records" else self._draw.randbytes(self._draw.choice((0, 4, 40)))
            )
        self._length(out, len(content), short=short)
        out += content

    def _text(self, name: str) -> str:
        world, draw = self._world, self._draw
        if "transactional_id" in name:
            return draw.choice(world.transactional_ids)
        if "group" in name or name in ("key", "coordinator_keys"):
            return draw.choice(world.groups)
        if name == "value":
            return draw.choice(world.setting_values)
        if name == "feature":
            return draw.choice(("transaction.version", "no.such.version"))
        if name == "configuration_keys":
            return draw.choice(world.setting_names)
        if "topic" in name or "name" in name:
            return draw.choice((*world.topics, *world.topics, draw.choice(world.setting_names)))
        return draw.choice(("", "range", "consumer", "member", "fuzz"))

    def _length(self, out: bytearray, length: int, *, short: bool = False) -> None:
        """-1 is null."""
        if self._flexible:
            append_uvarint(out, length + 1)
        else:
            out += pack(">h", max(-1, min(length, 32_767))) if short else pack(">i", length)
