"""Connections to clusters, kept for the life of a process: Spark reuses its Python workers from batch to batch.

Nothing here may be made before a fork or pickled; ask `cluster` where the work is done.
"""

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

from spark_connector.access import Access, State
from spark_connector.errors import CLIENT_ERRORS, explained
from tallystick.client.background import background_loop
from tallystick.client.client import Client, addresses_in
from tallystick.client.diagnosis import hung_up_because
from tallystick.client.errors import ConnectionLost, NotSecured
from tallystick.client.security import Security

T = TypeVar("T")
_PATIENCE_S = 5.0
"""How long a single look-up waits; what must wait longer repeats it."""
_PAUSE_S = 0.1


class Cluster:
    """A client that may be used from blocking code."""

    def __init__(self, access: Access, patience_s: float) -> None:
        security = access.security()
        self._loop = background_loop()
        self.client = self._loop.run(_connected(access, security, patience_s))

    def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait until some work with `client` is done; what it raises is the caller's."""
        return self._loop.run(work)

    def run(self, work: Coroutine[Any, Any, T], doing: str) -> T:
        """Wait until some work with `client` is done. What it raises is explained, with what was being done."""
        try:
            return self.ask(work)
        except CLIENT_ERRORS as error:
            raise explained(error, doing) from error


_clusters: dict[tuple[int, Access, State], Cluster] = {}


async def _connected(access: Access, security: Security, patience_s: float) -> Client:
    """A client that has been answered once. A broker that is away is waited for, one that has its reasons is not."""
    deadline = asyncio.get_running_loop().time() + patience_s
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                client = await Client.connect(
                    access.bootstrap, client_id=access.client_id, patience_s=_PATIENCE_S, security=security
                )
                await client.metadata([])
                return client
        except TimeoutError as error:
            if asyncio.get_running_loop().time() >= deadline:
                raise ConnectionLost(f"no answer within {patience_s:g} s") from error
        except (ConnectionLost, ConnectionError) as error:
            if not isinstance(error, ConnectionRefusedError):
                await _diagnose(access, security)
            if asyncio.get_running_loop().time() > deadline:
                raise
        except OSError:
            if asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(_PAUSE_S)


async def _diagnose(access: Access, security: Security) -> None:
    """Raises `NotSecured` where a broker that hung up wants to be spoken to otherwise."""
    for host, port in addresses_in(access.bootstrap):
        reason = await hung_up_because(host, port, security)
        if reason is not None:
            raise NotSecured(reason)


def cluster(access: Access, *, patience_s: float = 30.0) -> Cluster:
    """The client of this process for a cluster, connected at the first call, and anew when a file of keys or
    certificates has changed. A broker that is away is waited for.
    """
    key = (os.getpid(), access, access.state())
    if key not in _clusters:
        try:
            _clusters[key] = Cluster(access, patience_s)
        except CLIENT_ERRORS as error:
            raise explained(error, f"connecting to {access.bootstrap}") from error
    return _clusters[key]
