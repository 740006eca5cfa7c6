"""Every string of every request, as long as the wire takes it and longer: a client may get an error for it, never one
that we did not mean.

A string that fits into a request may be too long for the answer that it goes into, or for the record: with something
put before it, or in a version whose lengths are narrower.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from broker.api.api_families import load_handlers
from broker.api.catalogue import NO_ANSWER, CloseConnection, Deferred
from broker.api.dispatch import Call, Dispatcher, UnsupportedApiVersions
from protocol.compile_encoder import LargeMessage
from protocol.errors import ProtocolError
from protocol.framing import read_response
from protocol.schema import FieldSchema, schema_of
from tests.attacks.structures import Structure, World
from tests.unit.groups.wire import Broker, run_story

LENGTHS = (32_700, 32_766, 32_767, 32_768, 65_535)
PATIENCE_S = 0.05
"""How long an answer is waited for before the next request is sent; all are waited for in the end."""
SENSIBLE = {"session_timeout_ms": 6_000, "key_type": 0, "config_operation": 0}
TEXTS = {
    "protocol_type": "consumer",
    "protocol_name": "range",
    "member_id": "",
    "reason": "",
    "v3_and_below_transactional_id": "id",
    "transactional_id": "id",
}
_fresh = count()


class OneLongString(Structure):
    """A request with something in each of its arrays, one of whose strings is long."""

    def __init__(self, request: type, version: int, world: World, chosen: int, size_bytes: int) -> None:
        super().__init__(request, version, world, chosen, frozenset())
        self._chosen = chosen
        self._size_bytes = size_bytes
        self.strings = 0
        self.named = ""

    def _array(self, out: bytearray, declared: FieldSchema) -> None:
        content = bytearray()
        super()._array(content, declared)
        while self.strings <= self._chosen and content in (b"\x01", b"\x00\x00\x00\x00"):
            content.clear()
            super()._array(content, declared)
        out += content

    def _sized(self, out: bytearray, declared: FieldSchema, kind: str, lies: bool) -> None:
        if kind != "string":
            super()._sized(out, declared, kind, lies)
            return
        self.strings += 1
        if self.strings - 1 != self._chosen:
            super()._sized(out, declared, kind, lies)
            return
        self.named = declared.name
        if self._flexible:
            self._length(out, self._size_bytes, short=True)
        else:
            out += pack(">H", self._size_bytes)  # 65 535 is null here, and 32 768 less than nothing.
        out += b"x" * self._size_bytes

    def _sensible(self, name: str) -> int:
        return SENSIBLE.get(name, super()._sensible(name))

    def _text(self, name: str) -> str:
        if name == "group_id":
            return f"group-{next(_fresh)}"
        return TEXTS.get(name, super()._text(name))


def frames(key: int, version: int, world: World) -> Iterator[tuple[str, bytes]]:
    """Requests of one version, each with what is long in it: the client id, then one string after the other."""
    request = load_handlers()[key].request
    flexible = version >= schema_of(request).flexible_since
    tail = b"\x00" if flexible else b""
    for size_bytes in LENGTHS:
        body = OneLongString(request, version, world, -1, 0).body()
        client_id = b"x" * min(size_bytes, 32_767)
        yield f"client id of {len(client_id)}", pack(">hhih", key, version, 1, len(client_id)) + client_id + tail + body
        for chosen in count():
            structure = OneLongString(request, version, world, chosen, size_bytes)
            body = structure.body()
            if structure.strings <= chosen:
                break
            head = pack(">hhih", key, version, 1, 4) + b"long" + tail
            yield f"{structure.named} of {size_bytes}", head + body


class Client:
    """Sends requests as a connection does, from bytes to bytes."""

    def __init__(self, broker: Broker) -> None:
        self._dispatcher = Dispatcher(broker.node, load_handlers())
        self._connection = broker.connection

    async def ask(self, frame: bytes) -> None:
        """Raises whatever is not meant for a client."""
        with suppress(ProtocolError, CloseConnection, UnsupportedApiVersions):
            call = self._dispatcher.read(self._connection, frame)
            if call.undecoded is not None:
                await self._dispatcher.decode(call)
            result: Any = self._dispatcher.run(call)
            while True:
                if isinstance(result, Deferred):
                    result = result.answer
                if not isinstance(result, Awaitable):
                    break
                result = await result
            if result is not NO_ANSWER:
                self._check(call, await self._encoded(call, result))

    async def _encoded(self, call: Call, result: Any) -> bytes:
        try:
            return b"".join(call.encode(result))
        except LargeMessage:
            return b"".join((await self._dispatcher.encode(call, result)).parts)

    def _check(self, call: Call, answer: bytes) -> None:
        read_response(call.context.api_key, call.context.api_version, answer[4:])


@pytest.mark.parametrize("key", sorted(load_handlers()), ids=lambda key: load_handlers()[key].name)
def test_every_string_fits_into_a_response_or_record(
    key: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[str] = []

    async def story(broker: Broker) -> None:
        await broker.found()
        client, world = Client(broker), World(topics=["long"], groups=("group", ""), transactional_ids=("id",))
        world.topic_ids = [await broker.topic("long")]
        asked: dict[asyncio.Task[None], str] = {}
        for version in load_handlers()[key].versions:
            for what, frame in frames(key, version, world):
                task = asyncio.ensure_future(client.ask(frame))
                asked[task] = f"version {version}, {what}"
                await asyncio.wait({task}, timeout=PATIENCE_S)
        for task, what in asked.items():
            if not task.done():
                task.cancel()
            elif (error := task.exception()) is not None:
                failures.append(f"{what}: {error!r}"[:300])

    with caplog.at_level(logging.ERROR):
        run_story(story, tmp_path)
    assert failures == []
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
