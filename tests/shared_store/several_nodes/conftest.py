"""A store of its own for each story, and whatever runs over it ended."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shared_store.postgresql_server import PostgresqlServer
from tests.shared_store.test_a_broker import Nodes


@pytest.fixture
def nodes(tmp_path: Path, postgresql: PostgresqlServer, schema: str) -> Iterator[Nodes]:
    made = Nodes(tmp_path, postgresql.url(f"several_{schema}"))
    try:
        yield made
    finally:
        made.close()
