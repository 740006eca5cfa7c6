"""The shared store in PostgreSQL 15 or newer: `storage.shared.store.SharedStore`, whose rules the functions of
`broker/shared/schema.py` keep.

Rule 1. Commits go over a connection of their own, one behind the other in the order in which they were asked for. So do
        heartbeats, and the question who lives, which wait for nobody; readers have some of their own, and keep nobody
        else waiting: what is read for those who open a log finds one that no reader has.
Rule 2. What was acknowledged last is known here, and is looked for whenever a connection is made: a server that is
        without it was promoted too early, or is another, and is refused.
"""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext

from broker.shared.connections import Address, Broken, Connection, Connections, Lost, Row, connect, translated
from broker.shared.migration import migrate
from broker.shared.notices import Notices
from protocol.schema import Buffer
from storage.shared.store import (
    CommitUnknown,
    Fenced,
    FoundLog,
    Incarnation,
    LogChange,
    Member,
    NotOwned,
    ObjectLost,
    ObjectMissing,
    OwnedLog,
    Run,
    StoredRun,
    StoreRefused,
    StoreUnreachable,
    Upload,
)

READERS = 4
LEFT_BY_READERS = 1
OTHERS = 2
"""Connections, which are made when they are wanted."""

_COMMIT = (
    "SELECT * FROM commit_object($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,"
    " $20)"
)
_COMMIT_UPLOAD = (
    "SELECT * FROM commit_upload($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,"
    " $20, $21)"
)
_RUNS = """
SELECT object_id, base_offset, last_offset, position, size_bytes, max_timestamp_ms, heads_crc FROM run
WHERE log_id = $1 AND last_offset >= $2 ORDER BY last_offset LIMIT $3
"""
_READ = """
SELECT coalesce(octet_length(bytes), upload_bytes) AS size, upload_id,
    substr(bytes, position + 1, size_bytes) AS found
FROM unnest($1::bigint[], $2::integer[], $3::integer[]) WITH ORDINALITY
    AS wanted (object_id, position, size_bytes, number)
LEFT JOIN object USING (object_id) ORDER BY number
"""
_MEMBERS = """
SELECT node_id, number, about, greatest(0, extract(epoch FROM clock_timestamp() - at) * 1000)::bigint AS silent_ms
FROM incarnation JOIN heard USING (number) WHERE NOT fenced ORDER BY node_id, number
"""
_TOPICS = "SELECT DISTINCT topic_id FROM log ORDER BY topic_id"
_NAME_CLUSTER = "UPDATE cluster SET cluster_id = coalesce(cluster_id, $1) RETURNING cluster_id"
_TELL = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, '')"
"""Nothing is promised by it, so it waits for no standby; PostgreSQL 18 would have it wait."""
_PLACE = "SELECT objects FROM cluster"


class PostgresqlStore:
    """See `storage.shared.store.SharedStore` for the contract of every method. `url` is one of libpq, of one server or
    of several of which one can be written to; `schema` among its parameters names what all tables lie in."""

    keeps_apart = False

    def __init__(self, url: str) -> None:
        self._address = Address(url)
        self._commits = Connections(self._address, 1, self._greet)
        self._heartbeats = Connections(self._address, 1, self._greet)
        self._readers = Connections(self._address, READERS, self._greet)
        self._for_readers = asyncio.Semaphore(READERS - LEFT_BY_READERS)
        self._others = Connections(self._address, OTHERS, self._greet)
        self._notices = Notices(self._address)
        self._acknowledged: tuple[Incarnation, int | None, object] | None = None
        """Who, the last object, and where it was written."""

    async def open(self) -> None:
        connection = await connect(self._address)
        try:
            await migrate(connection, self._address.schema)
        except Exception as error:
            raise translated(error, was_sent=False) from error
        finally:
            connection.terminate()

    async def close(self) -> None:
        every = (self._commits, self._heartbeats, self._readers, self._others)
        await asyncio.gather(self._notices.close(), *(one.close() for one in every))

    async def cluster_id(self, wanted: str | None, drawn: str) -> str:
        row = await self._row(_NAME_CLUSTER, wanted or drawn)
        assert row is not None, "the row is always there"
        found = str(row["cluster_id"])
        if wanted not in (None, found):
            raise StoreRefused(f"the store is of cluster {found}, not of {wanted}")
        await self._check_place()
        return found

    async def _check_place(self) -> None:
        """Whether objects are looked for where they lie. Raises `StoreRefused`."""
        place = await self._placed()
        if place is not None:
            raise StoreRefused(f"objects of this cluster lie in {place}: tallystick.store.objects has to say so")

    async def _placed(self) -> str | None:
        row = await self._row(_PLACE)
        assert row is not None, "the row is always there"
        return None if row["objects"] is None else str(row["objects"])

    # -- nodes -----------------------------------------------------------------------------------------------

    async def join(self, node_id: int, about: bytes) -> Incarnation:
        row = await self._row("SELECT join_others($1, $2) AS mine", node_id, about)
        assert row is not None, "it always answers"
        who = Incarnation(node_id, row["mine"])
        self._acknowledged = (who, None, None)
        await self._check_place()  # Another may have begun to keep them apart meanwhile.
        return who

    async def members(self) -> list[Member]:
        rows = await _ask(self._heartbeats, _MEMBERS)
        return [
            Member(Incarnation(row["node_id"], row["number"]), row["silent_ms"], bytes(row["about"])) for row in rows
        ]

    async def fence(self, who: Incarnation, other: Incarnation, silent_ms: int) -> bool:
        assert who != other, "who ends its own life leaves"
        query = "SELECT fence($1, $2, $3, $4, $5) AS over"
        row = await self._row(query, who.number, who.node_id, other.number, other.node_id, silent_ms)
        assert row is not None, "it always answers"
        _check_lives(who, row["over"] is not None)
        return bool(row["over"])

    async def heartbeat(self, who: Incarnation) -> None:
        rows = await _ask(self._heartbeats, "SELECT hear($1, $2) AS lives", who.number, who.node_id)
        _check_lives(who, rows[0]["lives"])

    async def tell(self) -> None:
        await self._row(_TELL, self._notices.channel)

    async def wait_until_told(self, wait_s: float) -> None:
        await self._notices.wait(wait_s)

    async def leave(self, who: Incarnation) -> None:
        query = "UPDATE incarnation SET fenced = true WHERE number = $1 AND node_id = $2"
        await self._row(query, who.number, who.node_id)

    # -- logs ------------------------------------------------------------------------------------------------

    async def claim(self, who: Incarnation, topic_id: bytes, index: int, epoch: int | None) -> OwnedLog:
        query = "SELECT owned, (held).* FROM claim_log($1, $2, $3, $4, $5)"
        row = await self._row(query, who.number, who.node_id, topic_id, index, epoch)
        _check_lives(who, row is not None)
        assert row is not None
        if not row["owned"]:
            raise NotOwned(f"log {row['log_id']} has epoch {row['owner_epoch']}, not {epoch}")
        return _owned_log(row)

    async def look(self, who: Incarnation, topic_id: bytes, index: int, *, with_kept: bool) -> FoundLog | None:
        query = "SELECT * FROM look_at_log($1, $2, $3, $4, $5)"
        row = await self._row(query, who.number, who.node_id, topic_id, index, with_kept)
        _check_lives(who, row is not None)
        assert row is not None
        if row["log_id"] is None:
            return None
        return FoundLog(Incarnation(row["owner_node"], row["owner"]), _owned_log(row))

    async def upload(self, who: Incarnation, upload_id: int, data: Sequence[Buffer]) -> Upload:
        raise AssertionError("bytes go with the commit")

    async def commit(
        self, who: Incarnation, object_id: int, data: Sequence[Buffer] | Upload, changes: Sequence[LogChange]
    ) -> frozenset[int]:
        assert object_id >> 32 == who.number, "an object is called after who makes it"
        columns = _columns(changes)
        try:
            if isinstance(data, Upload):
                mine = (data.upload_id, data.size_bytes, who.number, who.node_id, object_id)
                rows = await self._commits.ask(_COMMIT_UPLOAD, *mine, *columns)
            else:
                rows = await self._commits.ask(_COMMIT, who.number, who.node_id, object_id, b"".join(data), *columns)
        except Lost as lost:
            raise CommitUnknown(str(lost)) from lost
        except Broken as broken:
            raise AssertionError(f"object {object_id}: {broken}") from broken
        _check_lives(who, bool(rows))
        return self._acknowledge(who, object_id, rows[0])

    async def settle(self, who: Incarnation, object_id: int) -> frozenset[int] | None:
        assert object_id >> 32 == who.number, "everybody settles his own"
        row = await self._row("SELECT * FROM settle_object($1, $2, $3)", who.number, who.node_id, object_id)
        _check_lives(who, row is not None)
        assert row is not None
        return None if row["others"] is None else self._acknowledge(who, object_id, row)

    def _acknowledge(self, who: Incarnation, object_id: int, row: Row) -> frozenset[int]:
        known = None if self._acknowledged is None or self._acknowledged[0] != who else self._acknowledged[1]
        if known is None or known < object_id:
            self._acknowledged = (who, object_id, row["at_lsn"])
        return frozenset(row["others"])

    async def forget(self, who: Incarnation, topic_id: bytes) -> None:
        row = await self._row("SELECT forget_topic($1, $2, $3) AS lives", who.number, who.node_id, topic_id)
        _check_lives(who, row is not None and row["lives"])

    # -- reading ---------------------------------------------------------------------------------------------

    async def runs(self, log_id: int, offset: int, limit: int) -> list[StoredRun]:
        rows = await _ask(self._readers, _RUNS, log_id, offset, limit)
        return [
            StoredRun(
                row["object_id"],
                Run(
                    row["base_offset"],
                    row["last_offset"],
                    row["position"],
                    row["size_bytes"],
                    row["max_timestamp_ms"],
                    row["heads_crc"],
                ),
            )
            for row in rows
        ]

    async def read(self, runs: Sequence[StoredRun], *, for_reader: bool = False) -> list[bytes]:
        async with self._for_readers if for_reader else nullcontext():
            rows = await _ask(
                self._readers,
                _READ,
                [one.object_id for one in runs],
                [one.run.position for one in runs],
                [one.run.size_bytes for one in runs],
            )
        for one, row in zip(runs, rows, strict=True):
            if row["size"] is None:
                raise ObjectMissing(f"object {one.object_id}")
            if one.run.position + one.run.size_bytes > row["size"]:
                raise ObjectLost(f"object {one.object_id} is shorter than it was")
        return await self._found(runs, rows, for_reader)

    async def _found(self, runs: Sequence[StoredRun], rows: Sequence[Row], for_reader: bool) -> list[bytes]:
        """The bytes of runs, where the database has found these rows."""
        for one, row in zip(runs, rows, strict=True):
            if row["found"] is None:
                raise ObjectLost(f"object {one.object_id} lies in a bucket, and this node is not told of one")
        return [bytes(row["found"]) for row in rows]

    async def name_of(self, object_id: int) -> str:
        return f"object {object_id}"

    async def topic_ids(self) -> list[bytes]:
        return [bytes(row["topic_id"]) for row in await _ask(self._readers, _TOPICS)]

    async def collect(self, older_ms: int, limit: int) -> int:
        row = await self._row("SELECT collect_objects($1, $2) AS removed", older_ms, limit)
        assert row is not None, "it always answers"
        return int(row["removed"])

    # -- asking ----------------------------------------------------------------------------------------------

    async def _row(self, query: str, *arguments: object) -> Row | None:
        rows = await self._rows(query, *arguments)
        return rows[0] if rows else None

    async def _rows(self, query: str, *arguments: object) -> list[Row]:
        return await _ask(self._others, query, *arguments)

    async def _greet(self, connection: Connection) -> None:
        """Rule 2."""
        if self._acknowledged is None:
            return
        who, object_id, written_at = self._acknowledged
        query = "SELECT is_lost($1, $2, $3, $4) AS it_is"
        rows = await connection.fetch(query, who.number, who.node_id, object_id, written_at)
        if rows[0]["it_is"]:
            raise StoreRefused(
                f"This server is without what was acknowledged to node {who.node_id} (incarnation {who.number},"
                f" object {object_id}): a standby that was promoted too early, or another database."
            )


async def _ask(connections: Connections, query: str, *arguments: object) -> list[Row]:
    """For what may be done again, whether it was done or not."""
    try:
        return await connections.ask(query, *arguments)
    except Lost as lost:
        raise StoreUnreachable(str(lost)) from lost
    except Broken as broken:
        raise AssertionError(str(broken)) from broken


def _check_lives(who: Incarnation, lives: bool) -> None:
    if not lives:
        raise Fenced(f"incarnation {who.number} of node {who.node_id} is over")


def _owned_log(row: Row) -> OwnedLog:
    return OwnedLog(
        row["log_id"], row["owner_epoch"], row["first_offset"], row["start_offset"], row["next_offset"], row["kept"]
    )


def _columns(changes: Sequence[LogChange]) -> list[list[object]]:
    """What a commit is told of logs, and of the runs of all of them."""
    nexts: list[int] = []
    for change in changes:
        next_offset = change.base_offset
        for run in change.runs:
            assert run.base_offset == next_offset, "offsets have no gaps"
            next_offset = run.last_offset + 1
        nexts.append(next_offset)
    runs = [(change.log_id, run) for change in changes for run in (*change.runs, *change.replacements)]
    return [
        [change.log_id for change in changes],
        [change.owner_epoch for change in changes],
        [change.base_offset for change in changes],
        list(nexts),
        [change.start_offset for change in changes],
        [change.first_offset for change in changes],
        [change.kept for change in changes],
        [None if change.replaced is None else change.replaced[0] for change in changes],
        [None if change.replaced is None else change.replaced[1] for change in changes],
        [log_id for log_id, _ in runs],
        [run.base_offset for _, run in runs],
        [run.last_offset for _, run in runs],
        [run.position for _, run in runs],
        [run.size_bytes for _, run in runs],
        [run.max_timestamp_ms for _, run in runs],
        [run.heads_crc for _, run in runs],
    ]
