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
    """Tasks that have reported to the driver that they are done (An)."""
    sink: int = 0
    plan: int = 0
    """Which plan of the batch it runs."""
    turns: tuple[int, ...] = ()
    """By partition the sequence that the next turn begins with; below 0, as `taken`, while a task has the turn."""
    admitted: tuple[int, ...] = ()
    """By task the attempt that may write for it; -1 before one has had a turn."""
    done: tuple[int, ...] = ()
    """Tasks that have said under this lease that they have no more to write (format)."""
    results: tuple[tuple[int, int], ...] = ()
    """Tasks that Spark has the results of, each with the epoch it wrote under (format)."""


class Task(NamedTuple):
    """One attempt at a task of a batch, under a lease (An)."""

    driver: int
    query: int
    batch: int
    epoch: int
    number: int
    attempt: int = 0
    place: int = 0
    added: bool = False
    is_zombie: bool = False
    """Spark has given it up: nobody hears its acknowledgement."""
    sink: int = 0
    plan: int = 0
    turn: int = -1
    """The sequence that its turn begins with; -1 without one."""
    is_done: bool = False
    """Whether it has said that it has no more to write, and been heard (format)."""
    is_answered: bool = False
    """Whether the broker has acknowledged what it wrote in its turn."""


class Left(NamedTuple):
    """How many faults are still allowed."""

    drivers: int
    attempts: int
    repeats: int
    timeouts: int
    stops: int = 0
    moves: int = 0
    restores: int = 0


Noted = tuple[tuple[int, ...], ...]
"""For each query, by which plan each batch was done that Spark's checkpoint has noted (commits/N)."""


class World(NamedTuple):
    brokers: tuple[Broker, ...]
    """By sink id."""
    noted: Noted
    left: Left
    tries: tuple[Try, ...] = ()
    tasks: tuple[Task, ...] = ()
    net: tuple[Request, ...] = ()
    path: int = 0
    """Where the checkpoint lies."""
    plan: int = 0
    """How batches are planned now."""


def beginning(setting: Setting) -> World:
    broker = Broker((Partition(),) * (1 + setting.partitions()))
    left = Left(
        setting.drivers,
        setting.attempts,
        setting.repeats,
        setting.timeouts,
        setting.stops,
        setting.moves,
        setting.restores,
    )
    return World((broker,) * setting.sinks, ((),), left)


def broker_changed(world: World, sink: int, broker: Broker) -> World:
    brokers = world.brokers
    return world._replace(brokers=(*brokers[:sink], broker, *brokers[sink + 1 :]))


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
