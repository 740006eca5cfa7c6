"""A round of the scrub: all logs, one after the other, no faster than `tallystick.scrub.io.max.bytes.per.second`.

Damage is named once in the broker's log and refused to readers; it never ends the process, nor does a file that cannot
be read just now.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from broker.config.broker_config import BrokerConfig
from broker.partitions.errors import storage_error
from broker.partitions.partition import Partition
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.process.steps import run_steps
from broker.upkeep.pace import Pace
from storage.scrub import Scrub

SCRUB_RATE = "tallystick.scrub.io.max.bytes.per.second"

_log = EventLog("scrub")


async def scrub_all(partitions: Iterable[Partition], config: BrokerConfig, environment: Environment) -> None:
    """Look for damage in old segments; nothing is done while the rate is 0."""
    work = Scrub(storage_error)
    pace = Pace(environment.monotonic_ms, lambda: config.get_int(SCRUB_RATE))

    async def wait_until_next() -> None:
        delay_ms = pace.delay_ms(work.read_bytes)
        if delay_ms:
            await asyncio.sleep(delay_ms / 1000)

    for partition in partitions:
        if partition.discarded or not config.get_int(SCRUB_RATE):
            continue
        await _scrub_one(partition, work, environment, wait_until_next)
        await asyncio.sleep(0)


async def _scrub_one(
    partition: Partition, work: Scrub, environment: Environment, wait_until_next: Callable[[], Awaitable[None]]
) -> None:
    try:
        await run_steps(environment, lambda _: partition.log.scrub(work), wait_until_next=wait_until_next)
    except OSError as error:
        if not partition.discarded:
            _log.error("a log cannot be read", partition=partition.name, reason=error)
