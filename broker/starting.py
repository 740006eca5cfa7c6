"""What the process of a broker waits for: that it may serve, that it has started, and that it has stopped."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from broker.api.services import Services
from broker.node import Node
from storage.log import StorageFailed


async def started(start: Coroutine[Any, Any, Services], node: Node, stop: asyncio.Event) -> Services:
    """What a start comes to. One whose storage fails meanwhile may wait for ever for what will not be written. Raises
    `StorageFailed`."""
    starting = asyncio.create_task(start)
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait((starting, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if node.failure is not None and not starting.done():
        starting.cancel()
        raise StorageFailed(str(node.failure)) from node.failure
    return await starting


async def stood_by(node: Node, stop: asyncio.Event) -> bool:
    """Wait until this node is the one that serves; false where it is stopped before."""
    waiting = asyncio.create_task(node.wait_until_it_may_serve())
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait((waiting, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not waiting.done():
        waiting.cancel()
        return False
    waiting.result()
    return True


async def stop_unless_hurried(node: Node, hurry: asyncio.Event) -> None:
    """Who is in a hurry does not wait for a store that cannot be reached: what waits for it was never acknowledged."""
    stopping = asyncio.create_task(node.stop())
    await asyncio.wait((stopping, asyncio.create_task(hurry.wait())), return_when=asyncio.FIRST_COMPLETED)
    if stopping.done() or not node.config.store:
        await stopping
    else:
        node.abandon()
