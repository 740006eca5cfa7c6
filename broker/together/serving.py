"""The process of several nodes, until it is to stop."""

import asyncio
import gc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broker.config.broker_config import BrokerConfig
from broker.config.listeners import Endpoint
from broker.process.environment import RealEnvironment
from broker.process.logging import EventLog
from broker.process.stall_monitor import StallMonitor
from broker.together.nodes import NodesTogether

if TYPE_CHECKING:
    from broker.control.channel import Control
    from broker.faults.control import Faults
    from broker.tracing.exporting import Exporting

_log = EventLog("main")


async def serve_together(
    config: BrokerConfig,
    environment: RealEnvironment,
    *,
    control: "Control | None",
    faults: "Faults | None",
    traces: "Exporting | None",
    signals: tuple[asyncio.Event, asyncio.Event],
    monitor: StallMonitor | None,
    announce: Callable[[Sequence[Endpoint]], None],
) -> BaseException | None:
    """Returns what ended it, if that was no signal. `announce` is called when all of them serve. Raises `ConfigError`,
    `BadListener`, `BadTls`, `StorageFailed`."""
    stop, hurry = signals
    traced = None if traces is None else traces.waiting.take
    nodes = NodesTogether(config, environment, faults=faults, traced=traced, on_failure=stop.set)
    starting, stopped = asyncio.create_task(nodes.start()), asyncio.create_task(stop.wait())
    await asyncio.wait((starting, stopped), return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        announce_to = await starting
        obeying = None
        if control is not None and faults is not None:
            obeying = asyncio.create_task(control.obey(control.of(faults, nodes.services, nodes), stop))
        gc.enable()
        announce(announce_to)
        await stopped
        if obeying is not None:
            obeying.cancel()
    else:
        starting.cancel()
        await asyncio.wait([starting])
    if monitor is not None:
        monitor.stop()
    await nodes.stop(hurry)
    if traces is not None:
        traces.stop()
    if nodes.failure is None:
        _log.info("stopped")
    return nodes.failure
