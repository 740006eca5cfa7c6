"""An engine that speaks Docker's API: the one that DOCKER_HOST names, or Debian's podman."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness.podman import Podman, why_not

FOLDER = os.environ.get("TALLYSTICK_CONTAINERS", "")


@dataclass(frozen=True, slots=True)
class Engine:
    """Where it is, and its own program where it is podman."""

    address: str
    podman: Podman | None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They share an engine: one worker has it."""
    for item in items:
        if "tests/containers/" in item.path.as_posix():
            item.add_marker(pytest.mark.xdist_group("containers"))


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    if not FOLDER:
        pytest.skip("containers: `make test-containers` runs them")
    if given := os.environ.get("DOCKER_HOST"):
        yield Engine(given, None)
        return
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    if not (Path(FOLDER) / "images").exists():
        pytest.skip("there is no image: `make image` builds one")
    podman = Podman(Path(FOLDER), tmp_path_factory.mktemp("podman"))
    try:
        podman.start()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DOCKER_HOST", podman.address)
            # What cleans up behind a test that was killed is an image of its own, which may not be had here.
            patch.setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
            # Where this runs in a container itself, the engine is in there, too.
            patch.setenv("TESTCONTAINERS_HOST_OVERRIDE", "127.0.0.1")
            patch.setenv("TESTCONTAINERS_CONNECTION_MODE", "docker_host")
            yield Engine(podman.address, podman)
    finally:
        podman.close()
