"""One state of everything, and the queries of steps, faults and properties.

Rule 1. A try is sequential: it waits for the answer to one request. So the request itself is not kept beside it; it
        arrives whenever the search says so, which is every moment.
Rule 2. What is under way without a try that waits for it is in `net`: copies of repeated requests, and the last
        request of what has died. It arrives at any later moment, or never.
Rule 3. A dead driver's task may go on: it is a try without a driver, a zombie, and ends with its last row.
"""

from typing import NamedTuple

from tests.sink_model.kafka import Broker, Partition, Request
from tests.sink_model.settings import Setting


class Try(NamedTuple):
    """One attempt at one batch: the driver's part, and in mode A1 the task's, too."""

    driver: int
    query: int
    batch: int
    step: str
    epoch: int = -1
    place: int = 0
    """How many rows the broker has acknowledged (A1)."""
    added: bool = False
    """Whether the next partition was added to the transaction; only under the old rules."""
    is_zombie: bool = False
    is_again: bool = False
    """Whether the same driver has tried this batch before (An)."""
    acknowledged: tuple[int, ...] = ()
    """Partitions whose task has reported to the driver that it is done (An)."""


class Task(NamedTuple):
    """One attempt at one partition, under a lease (An)."""

    driver: int
    query: int
    batch: int
    epoch: int
    partition: int
    attempt: int = 0
    place: int = 0
    added: bool = False
    is_zombie: bool = False
    """Spark has given it up: nobody hears its acknowledgement."""


class Left(NamedTuple):
    """How many faults are still allowed."""

    drivers: int
    attempts: int
    repeats: int
    timeouts: int


class World(NamedTuple):
    broker: Broker
    noted: tuple[int, ...]
    """For each query, how many batches Spark's checkpoint has noted as done (commits/N)."""
    left: Left
    tries: tuple[Try, ...] = ()
    tasks: tuple[Task, ...] = ()
    net: tuple[Request, ...] = ()


def beginning(setting: Setting) -> World:
    broker = Broker((Partition(),) * (1 + setting.partitions()))
    left = Left(setting.drivers, setting.attempts, setting.repeats, setting.timeouts)
    return World(broker, (0,), left)


def changed(world: World, before: Try | None = None, after: Try | None = None) -> World:
    """The world with one try replaced, in the order that equal worlds share."""
    tries = list(world.tries)
    if before is not None:
        tries.remove(before)
    if after is not None:
        tries.append(after)
    return world._replace(tries=tuple(sorted(tries)))


def tasks_changed(world: World, before: Task | None = None, after: Task | None = None) -> World:
    tasks = list(world.tasks)
    if before is not None:
        tasks.remove(before)
    if after is not None:
        tasks.append(after)
    return world._replace(tasks=tuple(sorted(tasks)))


def sent(world: World, request: Request | None) -> World:
    """A request is under way that nobody waits for."""
    return world if request is None else world._replace(net=tuple(sorted((*world.net, request))))


def arrived(world: World, request: Request) -> World:
    net = list(world.net)
    net.remove(request)
    return world._replace(net=tuple(net))
