"""What lies in the bucket when all is well again: whatever the database names, and in the end nothing else."""

import time

from tests.chaos.cluster.database import Database, run
from tests.shared_store.objects.nodes_apart import named_in
from tests.shared_store.objects.s3_server import Looking, Versitygw

PATIENCE_S = 120.0
"""Nodes look a few times in it for what is to be removed."""
PAUSE_S = 0.5
GROW_OLD = (
    "UPDATE object SET dead_since = dead_since - interval '1 day' WHERE object_id IN "
    "(SELECT object_id FROM object WHERE dead_since IS NOT NULL FOR UPDATE SKIP LOCKED)",
    "UPDATE heard SET at = at - interval '1 day' FROM incarnation WHERE incarnation.number = heard.number AND fenced",
)
"""What no log holds, and whose life is over, has been so for long."""
UNSWEPT = "SELECT FROM incarnation WHERE fenced AND NOT swept"


def wait_until_it_holds_what_is_named(bucket: Versitygw, folder: str, database: Database, schema: str) -> None:
    """And until all that is old was removed. All nodes live, and nobody writes any more."""
    looking = Looking(bucket.port, folder, host=bucket.host)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        for statement in GROW_OLD:
            run(database.primary.sql(statement, schema=schema))
        is_swept = not run(database.primary.sql(UNSWEPT, schema=schema))
        named, there = set(named_in(database.primary, schema)), set(looking.names())
        if is_swept and named == there:
            return
        assert time.monotonic() < deadline, (
            f"the bucket lacks {sorted(named - there)}, and has left {sorted(there - named)}; swept: {is_swept}"
        )
        time.sleep(PAUSE_S)
