"""One server of PostgreSQL for all that share one, and a schema of its own for each test."""

import itertools
import os
from collections.abc import Iterator

import pytest

from tests.shared_store.engines import ENGINES, Engine, engine_called
from tests.shared_store.objects import s3_server
from tests.shared_store.postgresql_server import PostgresqlServer, running_server

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    with running_server() as server:
        yield server


def _s3(kind: str) -> Iterator[s3_server.S3Server]:
    reason = s3_server.why_not(kind)
    if reason is not None:
        pytest.skip(reason)
    server = s3_server.started(kind)
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def moto() -> Iterator[s3_server.S3Server]:
    yield from _s3("moto")


@pytest.fixture(scope="session")
def versitygw() -> Iterator[s3_server.S3Server]:
    yield from _s3("versitygw")


@pytest.fixture(scope="session")
def another() -> Iterator[s3_server.S3Server]:
    yield from _s3("another")


@pytest.fixture
def schema() -> str:
    """A folder of a bucket has its name, too, and a bucket may be that of several processes, and of earlier runs."""
    return f"test_{os.getpid()}_{next(_numbers)}"


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, schema: str) -> Engine:
    return engine_called(request.param, request, schema)
