"""Nodes over a PostgreSQL, and over a bucket as well, for what is measured of several nodes."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tallystick.process import BrokerProcess
from tests.shared_store.objects import s3_server
from tests.shared_store.objects.s3_server import S3Server
from tests.shared_store.postgresql_server import PostgresqlServer

PATIENCE_S = 60.0


@contextmanager
def nodes(
    server: PostgresqlServer, count: int, schema: str, bucket: S3Server | None = None, **more: object
) -> Iterator[list[BrokerProcess]]:
    """So many, with the ids from 1 on. `more`: settings, `__` for each point in their names."""
    settings = {name.replace("__", "."): value for name, value in more.items()}
    if bucket is not None:
        settings["tallystick.store.objects"] = f"s3://{s3_server.BUCKET}/{schema}"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        made = []
        for number in range(1, count + 1):
            own = settings | {"node.id": number}
            options = ["--store", server.url(schema)]
            options += [part for key, value in own.items() for part in ("--set", f"{key}={value}")]
            node = BrokerProcess(folder / f"node-{number}", options=options, start_seconds=PATIENCE_S)
            if bucket is not None:
                node.environment = s3_server.environment(bucket.port)
            stack.callback(node.close)
            made.append(node.start())
        yield made


def bootstrap_of(some: list[BrokerProcess]) -> str:
    return ",".join(node.bootstrap for node in some)
