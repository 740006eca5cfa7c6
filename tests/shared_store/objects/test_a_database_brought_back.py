"""A database that was brought back from a copy takes the place of one that is gone: what the lost one alone knew of
goes from the bucket, and what both know stays.
"""

import asyncio

import pytest

from broker.shared.objects_in_s3 import ObjectsInS3
from storage.shared.store import StoreRefused
from tests.shared_store.engines import LONG_MS, appended, object_of, read_of
from tests.shared_store.objects.s3_server import Looking, S3Server
from tests.shared_store.objects.shared_s3 import SharedS3, with_a_log
from tests.shared_store.postgresql_server import PostgresqlServer


def test_what_starts_of_the_lost_database_have_brought_is_swept(
    postgresql: PostgresqlServer, moto: S3Server, schema: str
) -> None:
    async def story() -> None:
        shared, looking = SharedS3(postgresql, schema, moto.port, kind=ObjectsInS3), Looking(moto.port, schema)
        store = shared.objects
        try:
            who, log = await with_a_log(store)
            upload = await store.upload(who, object_of(who, 1), [b"0123456789"])
            await store.commit(who, object_of(who, 1), upload, [appended(log, 1)])
            # As the lost database has gone on behind the copy.
            looking.put("drawn/00000001/00000002", b"of the same life")
            looking.put("drawn/00000002/00000001", b"of another life")
            looking.put("drawn/00000003/00000001", b"of the last life")
            looking.put("drawn/start", b"0000000003 00000000deadbeef\n")
            back = await shared.another_node()
            await back.cluster_id(None, "other")
            with pytest.raises(StoreRefused, match="start 3 has begun") as refused:
                await back.join(1, b"")
            _, _, remedy = str(refused.value).rpartition("behind that: ")
            people = await postgresql.connect()
            await people.execute(remedy)
            people.terminate()
            assert (await back.join(1, b"")).number == 4
            await back.collect(LONG_MS, 10)
            assert len(looking.names()) == 4, "something of the lost one may be on its way"
            await shared.forward(LONG_MS)
            await back.collect(2 * LONG_MS, 10)
            assert looking.names() == ["drawn/00000001/00000001"]
            assert await read_of(back, object_of(who, 1), 0, 10) == b"0123456789"
        finally:
            await shared.close()

    asyncio.run(story())
