"""What the process of a broker waits for: keys and certificates, that it has started, and that it has stopped."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker.api.services import Services
from broker.config.broker_config import BrokerConfig, ConfigError
from broker.node import Node
from broker.process.environment import Environment
from storage.log import StorageFailed
from storage.shared.store import Fenced, StoreRefused, StoreUnreachable

if TYPE_CHECKING:
    from broker.security.tls.tls_listeners import TlsListeners


LEAVING_S = 5.0


def check_ready_file(path: str | None) -> None:
    """Before this node takes anything from others. Raises `ConfigError`."""
    if path is not None and not Path(path).parent.is_dir():
        raise ConfigError(f"--ready-file: there is no folder {str(Path(path).parent)!r}.")


@contextlib.asynccontextmanager
async def leaving_where_it_fails(node: Node) -> AsyncIterator[None]:
    """What the others have given to a node that does not come to serve goes back at once, and not when it was silent
    for long: whoever starts it again and again would take it from everybody for good."""
    try:
        yield
    except Exception:
        if node.config.store:
            with contextlib.suppress(StoreUnreachable, StoreRefused, Fenced, TimeoutError):
                async with asyncio.timeout(LEAVING_S):
                    await node.die()
        raise


async def reached_store(node: Node, stop: asyncio.Event) -> bool:
    """Wait until the node may begin, without a port that takes connections which nobody serves; false where it is
    stopped before. Raises `StorageFailed`."""
    waiting = asyncio.create_task(node.wait_until_store_is_reached())
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait((waiting, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not waiting.done():
        waiting.cancel()
        return False
    waiting.result()
    return True


async def started(start: Coroutine[Any, Any, Services], node: Node, stop: asyncio.Event) -> Services | None:
    """What a start comes to. One whose storage fails meanwhile may wait for ever for what will not be written, and one
    over a store for a server that is down: None where it is to stop before that. Raises `StorageFailed`."""
    starting = asyncio.create_task(start)
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait((starting, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if node.failure is not None and not starting.done():
        starting.cancel()
        raise StorageFailed(str(node.failure)) from node.failure
    if node.config.store and not starting.done():
        starting.cancel()
        await asyncio.wait([starting])
        node.abandon()
        return None
    return await starting


async def stop_unless_hurried(node: Node, hurry: asyncio.Event) -> None:
    """Who is in a hurry does not wait for a store that cannot be reached: what waits for it was never acknowledged."""
    stopping = asyncio.create_task(node.stop())
    await asyncio.wait((stopping, asyncio.create_task(hurry.wait())), return_when=asyncio.FIRST_COMPLETED)
    if stopping.done() or not node.config.store:
        await stopping
    else:
        node.abandon()


async def tls_of(config: BrokerConfig, environment: Environment) -> "TlsListeners | None":
    """Keys and certificates of the listeners that speak TLS, with what was set of them while an earlier broker ran.
    Raises `BadTls`, or `ConfigError` where what is needed for them is not installed."""
    encrypting = [one.listener for one in config.listeners if config.security_protocol(one.listener).encrypts]
    if not encrypting:
        return None
    try:
        from broker.security.tls.tls_listeners import TlsListeners
    except ModuleNotFoundError as missing:
        raise ConfigError(f"TLS needs {missing.name}: pip install 'tallystick[security]'.") from None
    listeners = TlsListeners(config, environment, encrypting)
    await listeners.load()
    return listeners
