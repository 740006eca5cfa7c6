"""The shared store with the bytes of objects in a bucket, and everything else in PostgreSQL.

Rule 1. An object is in the bucket before the commit that names it is begun. A write that fails is given up: its name is
        never used again, and what may have come of it is removed.
Rule 2. The database decides what there is. What no row names is removed in the bucket when its life is over and was
        silent for long, or when this one has given it up; what a row names, never.
Rule 3. What leaves, leaves the database first, for a list of what may be removed, then the bucket, then that list.
Rule 4. The folder of a cluster in the bucket is called after the cluster, and says so in a file. The database knows
        which bucket it is: no node looks for objects in another.
Rule 5. A second file has the signature of the last start, which is drawn, and in the database before it is in the
        bucket. A database that does not know it is a copy of the one that does: it would use its names again, and
        remove what it does not know. It is looked at before a start changes anything and before anything is removed
        in the bucket, and written by starts that were let in alone: several may start at the same time.

    s3://bucket/folder/CLUSTER/cluster            whose this is
    s3://bucket/folder/CLUSTER/start              the last start with its signature
    s3://bucket/folder/CLUSTER/0000001f/00000007  what the start 31 has brought as its seventh
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from broker.shared.bucket import Bucket, NotThere, Place, Refusal, Shorter
from broker.shared.connections import Row
from broker.shared.postgresql import PostgresqlStore
from broker.shared.small_objects import WHOLE_BYTES, SmallObjects
from protocol.schema import Buffer
from storage.shared.store import (
    Incarnation,
    ObjectLost,
    ObjectMissing,
    StoredRun,
    StoreRefused,
    Upload,
)

REMOVED_AT_ONCE = 1000
SWEPT_AFTER_MS = 3_600_000
"""How long a life that is over has to be silent: nothing of it is on its way to the bucket any more."""
OTHERS_SILENT_MS = 30_000
"""How long nodes that keep everything in the database have to be silent before another keeps objects apart."""
WHOSE = "cluster"
"""The file that says whose folder it is."""
LAST_START = "start"

_SIGNATURE = "INSERT INTO signature VALUES (left(md5(gen_random_uuid()::text), 16)) RETURNING sign"
_STILL_HELD = "SELECT 1 AS it FROM object WHERE object_id = $1 AND live_runs > 0"
_UPLOAD_OF = "SELECT upload_id FROM object WHERE object_id = $1"
_LEAVING = "SELECT upload FROM uploads_leaving($1)"
_LEFT = """
DELETE FROM leaving WHERE upload_id IN (
    SELECT upload_id FROM leaving WHERE upload_id = ANY ($1::bigint[]) ORDER BY upload_id FOR UPDATE SKIP LOCKED
)
"""
"""Another may remove the same: who waits for nobody waits in no circle."""
_NAMED = """
SELECT upload_id FROM object WHERE upload_id = ANY ($1::bigint[])
UNION ALL SELECT upload_id FROM leaving WHERE upload_id = ANY ($1::bigint[])
"""

_REMEDY = (
    "SET search_path = {schema}; "
    "INSERT INTO incarnation (number, node_id, fenced)"
    " SELECT number, -1, true FROM generate_series({first}, {last}) AS number ON CONFLICT DO NOTHING; "
    "INSERT INTO heard SELECT number, now() FROM generate_series({first}, {last}) AS number ON CONFLICT DO NOTHING; "
    "UPDATE cluster SET last_number = greatest(last_number, {last}); "
    "INSERT INTO signature VALUES ('{sign}')"
)
"""For people. The starts that this database has not begun are lives that are over: what they have brought is swept."""


@dataclass(frozen=True, slots=True)
class _Start:
    """As the file in the bucket has it."""

    number: int
    sign: str

    def to_bytes(self) -> bytes:
        """All have the same size."""
        return f"{self.number:010d} {self.sign}\n".encode()


_START_BYTES = len(_Start(0, "0" * 16).to_bytes())
_UPLOAD = re.compile("[0-9a-f]{8}")
"""What else lies in a folder was laid there by somebody else, or is the folder itself, which some stores list."""
_WRITTEN_START = re.compile(rb"\d{10} [0-9a-f]{16}\n")


class ObjectsInS3(PostgresqlStore):
    """See `storage.shared.store.SharedStore` for the contract of every method."""

    keeps_apart = True

    def __init__(self, url: str, place: Place, bucket: Bucket | None = None) -> None:
        super().__init__(url)
        self._place = place
        self._bucket = Bucket(place) if bucket is None else bucket
        self._folder = ""
        """That of the cluster, once it is known."""
        self._small = SmallObjects(self._whole)
        self._given_up: set[int] = set()
        """What was not brought, as far as this node knows."""

    def _name(self, upload_id: int) -> str:
        assert self._folder, "it is known whose the folder is"
        return f"{self._folder}/{upload_id >> 32:08x}/{upload_id & 0xFFFFFFFF:08x}"

    async def cluster_id(self, wanted: str | None, drawn: str) -> str:
        found = await super().cluster_id(wanted, drawn)
        self._folder = found
        try:
            await self._try_bucket()
        except Refusal as refused:
            raise StoreRefused(str(refused)) from refused
        return found

    async def _check_place(self) -> None:
        """What is decided by `join` where it is not yet."""
        placed = await self._placed()
        if placed not in (None, str(self._place)):
            raise StoreRefused(f"objects of this cluster lie in {placed}, and not in {self._place}")

    async def _try_bucket(self) -> None:
        """Whether all can be done there that will have to be, and whether it is the bucket that it was. Raises
        `StoreRefused`, `StoreUnreachable`."""
        whose = f"{self._folder}/{WHOSE}"
        written = f"{self._folder}\n".encode()
        placed = await self._placed()  # Asked first: whoever is the first to place writes the file before.
        if placed is not None and await self._bytes_of(whose, len(written)) is None:
            raise StoreRefused(
                f"objects of cluster {self._folder} lie in {self._place}, and there are none: it is another bucket "
                "of that name, or they are gone"
            )
        await self._bucket.put(whose, written)
        if await self._bytes_of(whose, len(written)) is None:
            raise StoreRefused(f"what is written to {self._place} cannot be read there")
        async for _ in self._bucket.names(f"{self._folder}/none"):
            break
        await self._bucket.delete([f"{self._folder}/none"])

    async def _bytes_of(self, name: str, size_bytes: int) -> bytes | None:
        """Of a file that has so many; none of one that has fewer."""
        try:
            (found,) = await self._bucket.get(name, [(0, size_bytes)])
        except Shorter:
            return b""
        except NotThere:
            return None
        return found

    async def join(self, node_id: int, about: bytes) -> Incarnation:
        assert self._folder, "it is known whose the folder is"
        last_number = await self._check_history()
        row = await self._row("SELECT * FROM place_objects($1, $2, $3)", str(self._place), node_id, OTHERS_SILENT_MS)
        assert row is not None, "it always answers"
        if row["other"] is not None:
            raise StoreRefused(
                f"node {row['other']} lives, and keeps objects in the database: all nodes stop before the first starts "
                "with tallystick.store.objects"
            )
        who = await super().join(node_id, about)
        drawn = await self._row(_SIGNATURE)
        assert drawn is not None, "it is drawn"
        start = _Start(max(last_number, who.number), drawn["sign"])
        await self._bucket.put(f"{self._folder}/{LAST_START}", start.to_bytes())
        return who

    async def _check_history(self) -> int:
        """Rule 5; the number of the last start over the bucket. A start that is refused may be tried again. Raises
        `StoreRefused`, `StoreUnreachable`."""
        found = await self._bytes_of(f"{self._folder}/{LAST_START}", _START_BYTES)
        if found is None:
            return 0
        if _WRITTEN_START.fullmatch(found) is None:
            raise StoreRefused(f"{self._place}/{self._folder}/{LAST_START} is not what a start has written there")
        number, sign = found.decode().split()
        last = _Start(int(number), sign)
        row = await self._row(
            "SELECT last_number, EXISTS (SELECT FROM signature WHERE sign = $1) AS known FROM cluster", last.sign
        )
        assert row is not None, "the row is always there"
        if not row["known"]:
            remedy = _REMEDY.format(
                schema=self._address.schema, first=row["last_number"] + 1, last=last.number, sign=last.sign
            )
            raise StoreRefused(
                f"start {last.number} has begun over {self._place}, and this database, which has begun "
                f"{row['last_number']}, does not know of it: one is a copy of the other, or was brought back from "
                f"one. Where nothing else uses the bucket, have this one go on behind that: {remedy}"
            )
        return last.number

    # -- bringing --------------------------------------------------------------------------------------------

    async def upload(self, who: Incarnation, upload_id: int, data: Sequence[Buffer]) -> Upload:
        assert upload_id >> 32 == who.number, "an upload is called after who makes it"
        whole = b"".join(data)
        try:
            await self._bucket.put(self._name(upload_id), whole)
        except BaseException:
            self._given_up.add(upload_id)
            raise
        return Upload(upload_id, len(whole))

    # -- reading ---------------------------------------------------------------------------------------------

    async def _found(self, runs: Sequence[StoredRun], rows: Sequence[Row], for_reader: bool) -> list[bytes]:
        found: dict[int, bytes] = {}
        apart: dict[int, list[int]] = {}
        for index, row in enumerate(rows):
            if row["upload_id"] is None:
                found[index] = bytes(row["found"])
            else:
                apart.setdefault(row["upload_id"], []).append(index)
        brought = await asyncio.gather(
            *(
                self._bring(upload_id, rows[indexes[0]]["size"], [runs[index] for index in indexes], for_reader)
                for upload_id, indexes in apart.items()
            )
        )
        for indexes, whole in zip(apart.values(), brought, strict=True):
            found.update(zip(indexes, whole, strict=True))
        return [found[index] for index in range(len(rows))]

    async def _bring(self, upload_id: int, size_bytes: int, runs: Sequence[StoredRun], for_reader: bool) -> list[bytes]:
        """The bytes of some runs of one object, which has so many."""
        stretches = [(one.run.position, one.run.size_bytes) for one in runs]
        try:
            if size_bytes > WHOLE_BYTES:
                return await self._bucket.get(self._name(upload_id), stretches, for_reader=for_reader)
            whole = await self._small.whole(upload_id, size_bytes, for_reader)
            return [whole[position : position + size] for position, size in stretches]
        except NotThere as missing:
            object_id = runs[0].object_id
            if await self._row(_STILL_HELD, object_id) is None:
                raise ObjectMissing(f"object {object_id}") from missing
            raise ObjectLost(f"object {object_id}: {missing}, and logs hold runs of it") from missing

    async def name_of(self, object_id: int) -> str:
        row = await self._row(_UPLOAD_OF, object_id)
        if row is None or row["upload_id"] is None:
            return await super().name_of(object_id)
        return f"{self._place}/{self._name(row['upload_id'])}"

    async def _whole(self, upload_id: int, size_bytes: int, for_reader: bool) -> bytes:
        (whole,) = await self._bucket.get(self._name(upload_id), [(0, size_bytes)], for_reader=for_reader)
        return whole

    # -- removing --------------------------------------------------------------------------------------------

    async def collect(self, older_ms: int, limit: int) -> int:
        removed = await super().collect(older_ms, limit)
        await self._check_history()
        await self._remove_given_up()
        await self._remove_leaving()
        for row in await self._rows("SELECT life FROM lives_to_sweep($1)", SWEPT_AFTER_MS):
            await self._sweep(row["life"])
        return removed

    async def _remove_given_up(self) -> None:
        """Rule 1. What comes later than this is found when the life is over."""
        given_up = frozenset(self._given_up)
        await self._bucket.delete([self._name(upload_id) for upload_id in sorted(given_up)])
        self._given_up -= given_up

    async def _remove_leaving(self) -> None:
        """Rule 3."""
        while leaving := [row["upload"] for row in await self._rows(_LEAVING, REMOVED_AT_ONCE)]:
            await self._bucket.delete([self._name(upload_id) for upload_id in leaving])
            await self._rows(_LEFT, leaving)

    async def _sweep(self, number: int) -> None:
        """Rule 2, for a life that is over."""
        folder = f"{self._folder}/{number:08x}"
        async for names in self._bucket.names(folder):
            brought = [name for name in names if _UPLOAD.fullmatch(name.removeprefix(f"{folder}/"))]
            found = {number << 32 | int(name[-8:], 16): name for name in brought}
            named = {row["upload_id"] for row in await self._rows(_NAMED, list(found))}
            await self._bucket.delete([name for upload_id, name in found.items() if upload_id not in named])
        await self._rows("UPDATE incarnation SET swept = true WHERE number = $1", number)
