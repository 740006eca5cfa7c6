"""The engine with objects in a bucket, as stories about a shared store are told to it: what a story commits is brought
to the bucket first, whatever it is.
"""

import itertools
import os
from collections.abc import Callable, Sequence
from unittest import mock

import pytest

from broker.shared.bucket import Bucket, Place
from broker.shared.objects_in_s3 import ObjectsInS3
from protocol.schema import Buffer
from storage.shared.store import Incarnation, LogChange, OwnedLog, StoredRun, Upload
from tests.shared_store.engines import TOPIC, Engine, SharedPostgresql, engine_called
from tests.shared_store.objects.s3_server import BUCKET, SECRET, SERVERS, Looking, environment
from tests.shared_store.postgresql_server import PostgresqlServer

_numbers = itertools.count(1)


def bucket_at(port: int, place: Place, *, secret: str = SECRET) -> Bucket:
    with mock.patch.dict(os.environ, environment(port, secret=secret)):
        return Bucket(place)


def upload_of(who: Incarnation) -> int:
    return (who.number << 32) | next(_numbers)


class BringingFirst(ObjectsInS3):
    """See the head of this file."""

    async def _know_the_cluster(self) -> None:
        if not self._folder:  # A story may do without it.
            await self.cluster_id(None, "drawn")

    async def join(self, node_id: int, about: bytes) -> Incarnation:
        await self._know_the_cluster()
        return await super().join(node_id, about)

    async def commit(
        self, who: Incarnation, object_id: int, data: Sequence[Buffer] | Upload, changes: Sequence[LogChange]
    ) -> frozenset[int]:
        await self._know_the_cluster()
        if not isinstance(data, Upload) and any(data):
            data = await self.upload(who, upload_of(who), data)
        return await super().commit(who, object_id, data, changes)

    async def read(self, runs: Sequence[StoredRun], *, for_reader: bool = False) -> list[bytes]:
        await self._know_the_cluster()
        return await super().read(runs, for_reader=for_reader)

    async def collect(self, older_ms: int, limit: int) -> int:
        await self._know_the_cluster()
        return await super().collect(older_ms, limit)


async def with_a_log(store: ObjectsInS3) -> tuple[Incarnation, OwnedLog]:
    """The first node of the cluster `drawn`, and a log that it has."""
    await store.open()
    await store.cluster_id(None, "drawn")
    who = await store.join(1, b"")
    return who, await store.claim(who, TOPIC, 0, None)


class SharedS3(SharedPostgresql):
    """A schema of a database, and a folder of the same name in a bucket."""

    def __init__(
        self,
        server: PostgresqlServer,
        schema: str,
        port: int,
        *,
        kind: type[ObjectsInS3] = BringingFirst,
    ) -> None:
        super().__init__(server, schema)
        self._port, self._kind = port, kind
        self.store = self.objects = self._node()

    def _node(self) -> ObjectsInS3:
        place = Place(f"s3://{BUCKET}/{self.schema}")
        return self._kind(self.server.url(self.schema), place, bucket_at(self._port, place))

    async def rewrite(self, object_id: int, change: Callable[[bytes], bytes]) -> None:
        looking = Looking(self._port, self.schema)
        query = "SELECT upload_id FROM object WHERE object_id = $1"
        (row,) = await self.server.sql(query, object_id, schema=self.schema)
        name = self.objects._name(row["upload_id"])
        looking.put(name, change(looking.bytes_of(name)))
        self.objects._small._kept.clear()  # It may have been brought a moment ago.

    async def another_node(self) -> ObjectsInS3:
        node = self._node()
        self._others.append(node)
        await node.open()
        return node


def mixing_engine(name: str, request: pytest.FixtureRequest, schema: str) -> Engine:
    """An engine as it is: what a commit brings along goes with it, also where there is a bucket."""
    engine = engine_called(name, request, schema)
    if name not in SERVERS:
        return engine
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    port: int = request.getfixturevalue(name).port
    return Engine(lambda: SharedS3(server, schema, port, kind=ObjectsInS3))
