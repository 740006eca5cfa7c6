"""The places where programs in other languages do their job, and when they are asked to: with `make conformance`.

`TALLYSTICK_TEST_BROKER=apache-kafka` puts a real Apache Kafka there, which proves that the programs are right.
"""

import os
from collections.abc import Iterator

import pytest

from tests.harness.guarded_place import GuardedPlace, GuardedPlaces

WHOLE = os.environ.get("TALLYSTICK_CONFORMANCE", "") == "whole"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "other_languages: a client that is not Python's, for `make conformance`")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("other_languages") and not WHOLE:
            item.add_marker(pytest.mark.skip(reason="a client in another language: `make conformance` runs it"))


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedPlaces]:
    made = GuardedPlaces(tmp_path_factory.mktemp("places"))
    yield made
    made.close()


@pytest.fixture
def place(places: GuardedPlaces, way: str) -> GuardedPlace:
    return places.of(way)
