"""A bucket at the end of a line that a test may spoil, and brokers that reach it so."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shared_store.objects.line import Line
from tests.shared_store.objects.nodes_apart import NodesApart
from tests.shared_store.objects.s3_server import SERVERS, S3Server, why_not
from tests.shared_store.postgresql_server import PostgresqlServer


def _line_to(server: S3Server) -> Iterator[Line]:
    made = Line(server.port)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(params=SERVERS)
def line(request: pytest.FixtureRequest) -> Iterator[Line]:
    yield from _line_to(request.getfixturevalue(request.param))


@pytest.fixture
def any_line(request: pytest.FixtureRequest) -> Iterator[Line]:
    """To one server: the real one where it is."""
    yield from _line_to(request.getfixturevalue("versitygw" if why_not("versitygw") is None else "moto"))


@pytest.fixture
def nodes(tmp_path: Path, postgresql: PostgresqlServer, schema: str, any_line: Line) -> Iterator[NodesApart]:
    made = NodesApart(tmp_path, postgresql, f"apart_{schema}", any_line)
    try:
        yield made
    finally:
        made.close()
