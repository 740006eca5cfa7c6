"""Connections to clusters, kept for the life of a process: Spark reuses its Python workers from batch to batch.

Nothing here may be made before a fork or pickled; ask `cluster` where the work is done.
"""

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

from spark_connector.errors import CLIENT_ERRORS, explained
from tallystick.client.background import background_loop
from tallystick.client.client import Client
from tallystick.client.errors import ConnectionLost

T = TypeVar("T")
_PATIENCE_S = 5.0
"""How long a single look-up waits; what must wait longer repeats it."""
_PAUSE_S = 0.1


class Cluster:
    """A client that may be used from blocking code."""

    def __init__(self, bootstrap: str, client_id: str, patience_s: float) -> None:
        self._loop = background_loop()
        self.client = self._loop.run(_connected(bootstrap, client_id, patience_s))

    def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait until some work with `client` is done; what it raises is the caller's."""
        return self._loop.run(work)

    def run(self, work: Coroutine[Any, Any, T], doing: str) -> T:
        """Wait until some work with `client` is done. What it raises is explained, with what was being done."""
        try:
            return self.ask(work)
        except CLIENT_ERRORS as error:
            raise explained(error, doing) from error


_clusters: dict[tuple[int, str, str], Cluster] = {}


async def _connected(bootstrap: str, client_id: str, patience_s: float) -> Client:
    deadline = asyncio.get_running_loop().time() + patience_s
    while True:
        try:
            return await Client.connect(bootstrap, client_id=client_id, patience_s=_PATIENCE_S)
        except (OSError, ConnectionLost):
            if asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(_PAUSE_S)


def cluster(bootstrap: str, client_id: str, *, patience_s: float = 30.0) -> Cluster:
    """The client of this process for a cluster, connected at the first call. A broker that is away is waited for."""
    key = (os.getpid(), bootstrap, client_id)
    if key not in _clusters:
        try:
            _clusters[key] = Cluster(bootstrap, client_id, patience_s)
        except CLIENT_ERRORS as error:
            raise explained(error, f"connecting to {bootstrap}") from error
    return _clusters[key]
