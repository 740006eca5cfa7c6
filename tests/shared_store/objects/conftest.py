"""A bucket at the end of a line that a test may spoil."""

from collections.abc import Iterator

import pytest

from tests.shared_store.objects.line import Line
from tests.shared_store.objects.s3_server import S3Server


@pytest.fixture(params=["moto", "versitygw"])
def line(request: pytest.FixtureRequest) -> Iterator[Line]:
    server: S3Server = request.getfixturevalue(request.param)
    made = Line(server.port)
    try:
        yield made
    finally:
        made.close()
