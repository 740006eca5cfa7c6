"""The database's disk takes no more: nobody is told that something was written which was not, nodes say so, and when
there is room again they go on.
"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import pytest

from tallystick import postgresql_process
from tests.harness.small_disk import fill_up, small_disk
from tests.shared_store.postgresql_server import PostgresqlServer, running_server
from tests.shared_store.several_nodes.cluster import SeveralNodes, until
from tests.shared_store.several_nodes.writing import Writer
from tests.shared_store.test_a_broker import Nodes

OBJECTS_BYTES, SERVER_BYTES = 32 << 20, 256 << 20
SCHEMA = "several"
GONE = 1
"""The node that is killed while there is no room."""


class SmallServer:
    """A server, and the disk of what it writes most, which can be filled up."""

    def __init__(self, server: PostgresqlServer, disk: Path) -> None:
        self.server = server
        self._room = disk / "all-the-room"

    def fill_up(self) -> None:
        fill_up(self._room)

    def make_room(self) -> None:
        """A server that has ended meanwhile is started again, as whoever runs it would."""
        self._room.unlink()
        until(self._serves, "the server serves again")

    def _serves(self) -> bool:
        process = self.server._process._process
        assert process is not None
        if process.poll() is not None:
            asyncio.run(self.server.start())
        with contextlib.suppress(OSError, asyncpg.PostgresError):
            asyncio.run(self.server.sql("SELECT 1"))
            return True
        return False

    def refuses(self) -> bool:
        """What whoever writes is told, if it serves at all."""
        try:
            asyncio.run(self.server.sql("INSERT INTO log_of_somebody SELECT repeat('x', 1 << 20)", schema=SCHEMA))
        except asyncpg.DiskFullError:
            return True
        return False


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Path]]:
    """Small disks that the server's user may reach."""
    with ExitStack() as over:
        folder = Path(over.enter_context(tempfile.TemporaryDirectory(prefix="tallystick-small-")))
        folder.chmod(0o755)

        def made(size_bytes: int) -> Path:
            disk = over.enter_context(small_disk(folder / "disk", size_bytes))
            shutil.chown(disk, postgresql_process._as_whom()["user"])
            return disk

        yield made


def lived_through(small: SmallServer, tmp_path: Path, full: Callable[[SeveralNodes], None], *, is_read: bool) -> None:
    """Writers before, meanwhile and afterwards; a node is killed while there is no room: what it has acknowledged it
    has nowhere but in the database."""
    nodes = Nodes(tmp_path, small.server.url(SCHEMA))
    try:
        cluster = SeveralNodes(nodes)
        cluster.make_topics("t")
        with Writer(cluster, "t") as writer:
            writer.wait_for_more()
            full(cluster)
            told, read = writer.acknowledged, cluster.everything("t") if is_read else {}
            assert told <= sum(map(len, read.values())) or not is_read, "what was acknowledged is read"
            cluster.kill(GONE)
            small.make_room()
            writer.wait_for_more()
            cluster.by_id[GONE].start()
        assert writer.errors == []
        assert cluster.everything("t") == writer.expected()
        assert all(values == writer.expected()[index][: len(values)] for index, values in read.items())
        for node_id, one in cluster.by_id.items():
            assert node_id == GONE or "the store is reached again" in one.log_end(1 << 20)
        cluster.stop_all()
    finally:
        nodes.close()


def test_objects_for_which_there_is_no_room_are_waited_for(disks: Callable[[int], Path], tmp_path: Path) -> None:
    """The server goes on, and refuses; nodes tell it that they live, and are read."""
    disk = disks(OBJECTS_BYTES)
    with running_server() as server:
        small = SmallServer(server, disk)

        def full(cluster: SeveralNodes) -> None:
            asyncio.run(server.sql(f"CREATE TABLESPACE small LOCATION '{disk}'"))
            asyncio.run(server.sql("ALTER TABLE object SET TABLESPACE small", schema=SCHEMA))
            asyncio.run(server.sql("CREATE TABLE log_of_somebody (it text) TABLESPACE small", schema=SCHEMA))
            small.fill_up()
            for one in cluster.by_id.values():
                until(lambda: "No space left on device" in one.log_end(1 << 16), "each node says so")  # noqa: B023
            assert small.refuses()

        lived_through(small, tmp_path, full, is_read=True)


def test_a_server_that_has_no_room_for_anything_is_waited_for(
    disks: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tables may be the first that want more, or its log: then it ends, and nodes are read only until another could
    have taken their place."""
    disk = disks(SERVER_BYTES)
    monkeypatch.setattr(postgresql_process, "_place", lambda: disk)
    with running_server() as server:
        small = SmallServer(server, disk)

        def full(cluster: SeveralNodes) -> None:
            small.fill_up()
            for one in cluster.by_id.values():
                until(lambda: "the store cannot be reached" in one.log_end(1 << 16), "each says so")  # noqa: B023

        lived_through(small, tmp_path, full, is_read=False)
