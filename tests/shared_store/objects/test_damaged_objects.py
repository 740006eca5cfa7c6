"""Somebody has changed a byte of an object: who looks for it is told where it lies."""

import asyncio
import dataclasses

import pytest

from broker.shared.bringing import tail_of
from broker.shared.objects_in_s3 import ObjectsInS3
from protocol.records.record import NewRecord, build_batch
from storage.log import LogDamaged
from storage.shared.store import LogChange, Run
from tests.shared_store.engines import object_of
from tests.shared_store.objects.s3_server import BUCKET, Looking, S3Server
from tests.shared_store.objects.shared_s3 import SharedS3, with_a_log
from tests.shared_store.postgresql_server import PostgresqlServer

BATCH = build_batch([NewRecord(value=b"v" * 100, timestamp_ms=1)])


@pytest.mark.parametrize("apart", [True, False], ids=["in the bucket", "in the database"])
def test_a_byte_that_is_wrong_is_said_with_the_name_of_the_object(
    apart: bool, postgresql: PostgresqlServer, moto: S3Server, schema: str
) -> None:
    async def story() -> None:
        shared, looking = SharedS3(postgresql, schema, moto.port, kind=ObjectsInS3), Looking(moto.port, schema)
        store = shared.objects
        try:
            who, log = await with_a_log(store)
            change = LogChange(log.log_id, log.owner_epoch, 0, (Run(0, 0, 0, len(BATCH), 1),))
            damaged = BATCH[:-1] + b"w"
            if apart:
                upload = await store.upload(who, object_of(who, 7), [BATCH])
                await store.commit(who, object_of(who, 1), upload, [change])
                assert len(await tail_of(store, dataclasses.replace(log, next_offset=1), 0, "t-0")) == 1
                looking.put("drawn/00000001/00000007", damaged)
                store._small._kept.clear()  # It was brought a moment ago.
                named = f"s3://{BUCKET}/{schema}/drawn/00000001/00000007"
            else:
                await store.commit(who, object_of(who, 1), [damaged], [change])
                named = f"object {object_of(who, 1)}"
            with pytest.raises(LogDamaged, match=f"^t-0 is damaged at offset 0: a checksum is wrong in {named}$"):
                await tail_of(store, dataclasses.replace(log, next_offset=1), 0, "t-0")
        finally:
            await shared.close()

    asyncio.run(story())
