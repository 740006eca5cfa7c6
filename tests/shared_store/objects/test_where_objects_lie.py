"""Which bucket the objects of a cluster lie in: one, which the database knows, and no node looks elsewhere."""

import asyncio
import os
from collections.abc import Awaitable, Callable

import pytest

from broker.config.broker_config import BrokerConfig, ConfigError
from broker.shared import bucket as buckets
from broker.shared.bucket import Place
from broker.shared.engines import store_of
from broker.shared.objects_in_s3 import ObjectsInS3
from broker.shared.postgresql import PostgresqlStore
from coordinator.cluster.keys.config_keys import BROKER_KEYS
from storage.shared.store import ObjectLost, StoreRefused
from tests.shared_store.engines import LONG_MS, TOPIC, SharedPostgresql, appended, born, object_of, read_of
from tests.shared_store.objects.s3_server import BUCKET, Looking, S3Server
from tests.shared_store.objects.shared_s3 import BringingFirst, SharedS3, bucket_at
from tests.shared_store.postgresql_server import PostgresqlServer

DATA = [b"0123456789"]
URL = "postgresql://me:secret@h/d"

Story = Callable[["Clusters"], Awaitable[None]]


class Clusters:
    """Stores over one database and one server of buckets, which are closed at the end."""

    def __init__(self, postgresql: PostgresqlServer, moto: S3Server, schema: str) -> None:
        self.postgresql, self.port, self.schema = postgresql, moto.port, schema
        self.looking = Looking(moto.port, schema)
        self._all: list[PostgresqlStore] = []

    def in_database(self, schema: str | None = None) -> PostgresqlStore:
        self._all.append(PostgresqlStore(self.postgresql.url(schema or self.schema)))
        return self._all[-1]

    def apart(self, folder: str | None = None, schema: str | None = None) -> ObjectsInS3:
        place = Place(f"s3://{BUCKET}/{folder or self.schema}")
        made = BringingFirst(self.postgresql.url(schema or self.schema), place, bucket_at(self.port, place))
        self._all.append(made)
        return made

    async def silent(self) -> None:
        await SharedPostgresql(self.postgresql, self.schema).forward(LONG_MS)

    async def close(self) -> None:
        for one in self._all:
            await one.close()


class Held:
    """A method waits: behind what it does, or before, where its first argument is the one that is given."""

    def __init__(self, whose: object, name: str, before: str | None = None) -> None:
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        self._ask, self._before = getattr(whose, name), before
        setattr(whose, name, self._asked)

    async def _asked(self, *given: object) -> object:
        if self._before in given:
            await self._wait()
        found = await self._ask(*given)
        if self._before is None:
            await self._wait()
        return found

    async def _wait(self) -> None:
        self.reached.set()
        await self.go_on.wait()


@pytest.fixture
def tell(postgresql: PostgresqlServer, moto: S3Server, schema: str) -> Callable[[Story], None]:
    def tell(story: Story) -> None:
        async def told() -> None:
            clusters = Clusters(postgresql, moto, schema)
            try:
                await story(clusters)
            finally:
                await clusters.close()

        asyncio.run(told())

    return tell


async def opened(store: PostgresqlStore) -> str:
    await store.open()
    return await store.cluster_id(None, "drawn")


def test_a_cluster_that_began_in_the_database_goes_on_in_a_bucket(tell: Callable[[Story], None]) -> None:
    async def story(clusters: Clusters) -> None:
        before = clusters.in_database()
        await opened(before)
        who = await before.join(1, b"")
        log = await before.claim(who, TOPIC, 0, None)
        await before.commit(who, object_of(who, 1), DATA, [appended(log, 1)])
        await before.leave(who)
        store = clusters.apart()
        await opened(store)
        again = await store.join(1, b"")
        log = await store.claim(again, TOPIC, 0, None)
        await store.commit(again, object_of(again, 1), [b"abcdefghij"], [appended(log, 1)])
        assert len(clusters.looking.names()) == 1, "what was there stays where it is"
        both = await store.runs(log.log_id, 0, 10)
        assert await store.read([*both, *both]) == 2 * [b"0123456789", b"abcdefghij"]
        await store.leave(again)
        with pytest.raises(StoreRefused, match=f"lie in s3://bucket/{clusters.schema}: tallystick.store.objects has"):
            await opened(clusters.in_database())
        with pytest.raises(StoreRefused, match=f"lie in s3://bucket/{clusters.schema}, and not in s3://bucket/other"):
            await opened(clusters.apart("other"))
        with pytest.raises(ObjectLost, match="lies in a bucket, and this node is not told of one"):
            await read_of(before, object_of(again, 1), 0, 10)

    tell(story)


def test_nobody_begins_with_a_bucket_beside_a_node_that_knows_of_none(tell: Callable[[Story], None]) -> None:
    async def story(clusters: Clusters) -> None:
        first, late, store = clusters.in_database(), clusters.in_database(), clusters.apart()
        await asyncio.gather(*map(opened, (first, late, store)))
        await first.join(1, b"")
        with pytest.raises(StoreRefused, match="node 1 lives, and keeps objects in the database: all nodes stop"):
            await store.join(2, b"")
        await opened(clusters.in_database())  # Who was refused has decided nothing for the others.
        await clusters.silent()
        who = await store.join(2, b"")
        with pytest.raises(StoreRefused, match="objects has to say so"):
            await late.join(3, b"")
        await store.heartbeat(who)

    tell(story)


def test_two_clusters_share_a_folder_and_nothing_else(tell: Callable[[Story], None]) -> None:
    async def story(clusters: Clusters) -> None:
        stores = [clusters.apart("both", clusters.schema), clusters.apart("both", f"{clusters.schema}_other")]
        read = []
        for store, name in zip(stores, ("first", "second"), strict=True):
            await store.open()
            assert await store.cluster_id(name, "drawn") == name
            who = await born(store)
            upload = await store.upload(who, object_of(who, 7), [name.encode()])  # Both call it the same.
            await store.commit(who, object_of(who, 1), upload, [])
            read.append((who, name.encode()))
        for store, (who, data) in zip(stores, read, strict=True):
            await store.collect(0, 10)
            assert await read_of(store, object_of(who, 1), 0, len(data)) == data

    tell(story)


def test_a_bucket_of_that_name_without_the_objects_is_another(tell: Callable[[Story], None]) -> None:
    async def story(clusters: Clusters) -> None:
        store = clusters.apart()
        await opened(store)
        await store.join(1, b"")
        clusters.looking.delete("drawn/cluster")
        with pytest.raises(StoreRefused, match="and there are none: it is another bucket of that name, or they are"):
            await opened(clusters.apart())

    tell(story)


def test_a_copy_of_the_database_is_found_out_by_the_starts_that_it_does_not_know(
    tell: Callable[[Story], None],
) -> None:
    async def story(clusters: Clusters) -> None:
        store = clusters.apart()
        await opened(store)
        await store.join(1, b"")
        assert clusters.looking.bytes_of("drawn/start").startswith(b"0000000001 ")
        of_a_copy = b"0000000001 00000000deadbeef\n"
        for signed in (of_a_copy, of_a_copy.replace(b"1 0", b"9 0")):
            clusters.looking.put("drawn/start", signed)
            copy = clusters.apart()
            await opened(copy)
            for _ in range(3):
                with pytest.raises(StoreRefused, match=r"has begun over s3://bucket/\w+, and this database") as refused:
                    await copy.join(2, b"")
        _, _, remedy = str(refused.value).rpartition("behind that: ")
        for statement in remedy.split("; "):
            await clusters.postgresql.sql(statement, schema=clusters.schema)
        assert (await copy.join(2, b"")).number == 10, "what was refused had no number"
        assert clusters.looking.bytes_of("drawn/start").startswith(b"0000000010 ")

    tell(story)


def test_of_two_copies_of_a_database_one_alone_goes_on(tell: Callable[[Story], None]) -> None:
    """Each start of the one is told to the other, whoever was started first and how often."""

    async def story(clusters: Clusters) -> None:
        store = clusters.apart()
        await opened(store)
        await store.join(1, b"")
        (known,) = await clusters.postgresql.sql("SELECT sign FROM signature", schema=clusters.schema)
        await store.join(1, b"")
        # As a copy that was made before the second start: it has as many starts when it has tried once.
        await clusters.postgresql.sql("DELETE FROM signature WHERE sign <> $1", known["sign"], schema=clusters.schema)
        await clusters.postgresql.sql("UPDATE cluster SET last_number = 1", schema=clusters.schema)
        copy = clusters.apart()
        await opened(copy)
        for _ in range(3):
            with pytest.raises(StoreRefused, match="start 2 has begun"):
                await copy.join(1, b"")

    tell(story)


def test_a_copy_that_starts_beside_the_original_ends_it_before_it_removes_anything(
    tell: Callable[[Story], None],
) -> None:
    """Nothing had started behind the copy when it was made: it is let in, and the original is not the last any more."""

    async def story(clusters: Clusters) -> None:
        store = clusters.apart()
        await opened(store)
        who = await store.join(1, b"")
        log = await store.claim(who, TOPIC, 0, None)
        await store.commit(who, object_of(who, 1), DATA, [appended(log, 1)])
        other = await store.claim(who, TOPIC, 1, None)
        await store.commit(who, object_of(who, 2), DATA, [appended(other, 1)])
        await store.forget(who, TOPIC)
        clusters.looking.put("drawn/start", b"0000000002 00000000deadbeef\n")
        with pytest.raises(StoreRefused, match="start 2 has begun"):
            await store.collect(0, 10)
        assert len(clusters.looking.names()) == 2
        left = await clusters.postgresql.sql("SELECT FROM object", schema=clusters.schema)
        assert len(left) == 1, "that is its own; the newest stays"

    tell(story)


@pytest.mark.parametrize("written", [b"0000000002 00000000deadbee'\n", b"0000000002 0000\n00deadbeef\n"])
def test_a_signature_that_no_start_has_written_is_refused(written: bytes, tell: Callable[[Story], None]) -> None:
    """People are told to type what stands there."""

    async def story(clusters: Clusters) -> None:
        store = clusters.apart()
        await opened(store)
        await store.join(1, b"")
        clusters.looking.put("drawn/start", written)
        with pytest.raises(StoreRefused, match="drawn/start is not what a start has written there"):
            await store.join(1, b"")

    tell(story)


def test_nodes_that_start_at_the_same_time_let_each_other_in(tell: Callable[[Story], None]) -> None:
    """One looks whether it is the right bucket, while the next signs there and another is let in."""

    async def joined(store: ObjectsInS3, node_id: int) -> int:
        await opened(store)
        return (await store.join(node_id, b"")).number

    async def story(clusters: Clusters) -> None:
        looking, signing, late = (clusters.apart() for _ in range(3))
        looked, signs = Held(looking, "_placed"), Held(signing._bucket, "put", before="drawn/start")
        first = asyncio.create_task(joined(looking, 1))
        await looked.reached.wait()
        second = asyncio.create_task(joined(signing, 2))
        await signs.reached.wait()
        assert await joined(late, 3) == 2
        looked.go_on.set()
        assert await first == 3
        signs.go_on.set()
        assert await second == 1
        for one in (looking, signing, late):
            await one.collect(0, 10)
        assert clusters.looking.bytes_of("drawn/start").startswith(b"0000000001 ")

    tell(story)


def test_credentials_that_are_refused_end_the_start(
    postgresql: PostgresqlServer, versitygw: S3Server, schema: str
) -> None:
    async def story() -> None:
        place = Place(f"s3://{BUCKET}/{schema}")
        bucket = bucket_at(versitygw.port, place, secret="another-one")
        store = ObjectsInS3(postgresql.url(schema), place, bucket)
        try:
            with pytest.raises(StoreRefused, match="refuses these credentials: SignatureDoes") as refused:
                await opened(store)
            assert "another-one" not in str(refused.value)
        finally:
            await store.close()

    asyncio.run(story())


def test_a_bucket_that_is_not_there_ends_the_start(postgresql: PostgresqlServer, moto: S3Server, schema: str) -> None:
    async def story() -> None:
        place = Place("s3://nobody-has-made-it")
        store = ObjectsInS3(postgresql.url(schema), place, bucket_at(moto.port, place))
        try:
            with pytest.raises(StoreRefused, match="s3://nobody-has-made-it: there is no such bucket"):
                await opened(store)
        finally:
            await store.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    "url",
    [
        "gs://bucket/secret",
        "secret",
        "s3://",
        "s3://key:secret@bucket/folder",
        "s3://bucket/folder?secret=1",
        "s3://bucket/a secret",
        "s3://Secret/folder",
    ],
)
def test_what_is_no_bucket_is_refused_and_not_said(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        store_of(BrokerConfig({"tallystick.store": URL, "tallystick.store.objects": url}))
    assert str(refused.value).startswith("tallystick.store.objects: ") and "ecret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://my.bucket-1/a/b_c.d/", "s3://my.bucket-1/a/b_c.d"),
    ],
)
def test_a_place_is_written_in_one_way(url: str, place: str) -> None:
    assert str(Place(url)) == place


def test_a_bucket_alone_is_no_store() -> None:
    with pytest.raises(ConfigError, match="names none"):
        BrokerConfig({"tallystick.store.objects": "s3://bucket/folder"})


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "obstore", None)
    with pytest.raises(ConfigError, match=r"need obstore: pip install 'tallystick\[s3\]'"):
        store_of(BrokerConfig({"tallystick.store": URL, "tallystick.store.objects": "s3://bucket"}))


def test_people_are_told_both_places() -> None:
    config = BrokerConfig({"tallystick.store": URL, "tallystick.store.objects": "s3://bucket/folder"})
    assert config.place == "postgresql://h/d and s3://bucket/folder"
    assert not BROKER_KEYS["tallystick.store.objects"].sensitive, "no secret can be in it"


def test_the_engine_is_that_of_the_settings() -> None:
    config = BrokerConfig({"tallystick.store": URL, "tallystick.store.objects": "s3://bucket/folder"})
    assert isinstance(store_of(config), ObjectsInS3)
    assert type(store_of(BrokerConfig({"tallystick.store": URL}))) is PostgresqlStore


def test_a_story_that_stops_before_a_bucket_is_known_is_a_bug(
    postgresql: PostgresqlServer, moto: S3Server, schema: str
) -> None:
    async def story() -> None:
        shared = SharedS3(postgresql, schema, moto.port, kind=ObjectsInS3)
        try:
            await shared.store.open()
            with pytest.raises(AssertionError, match="it is known whose the folder is"):
                await shared.objects.join(1, b"")
        finally:
            await shared.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"AWS_ENDPOINT_URL": "127.0.0.1:7070"}, "AWS_ENDPOINT_URL is an address with http:// or https://"),
        ({"AWS_ACCESS_KEY_ID": "somebody"}, "Missing SecretAccessKey"),
    ],
)
def test_an_environment_that_is_half_said_ends_the_start_with_a_sentence(
    environment: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    config = BrokerConfig({"tallystick.store": URL, "tallystick.store.objects": "s3://bucket/folder"})
    with pytest.raises(ConfigError, match=sentence):
        store_of(config)


@pytest.mark.parametrize("folder", ["..", "a/../b", "./a", "a/."])
def test_a_folder_is_no_way_up(folder: str) -> None:
    with pytest.raises(StoreRefused, match="a folder has a plain name"):
        Place(f"s3://bucket/{folder}")
