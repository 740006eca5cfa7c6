"""The next request of a try or a task to the broker. Follows from where it is, so it is not kept."""

from functools import lru_cache

from tests.sink_model.kafka import CONTROL, MARKER, Answer, Broker, Phase, Request, Row, deliver, is_void
from tests.sink_model.settings import Flaw, Mode, Setting
from tests.sink_model.world import Task, Try, World

PROGRAMS = {
    Mode.ONE_WRITER: ("lease", "look", "write", "mark", "end", "note"),
    Mode.MANY_WRITERS: ("lease", "look", "tasks", "mark", "end", "note"),
}
"""The steps of a try, in order. Those up to `write` are a task's in mode A1; all others are the driver's."""
TASK_STEPS = ("lease", "look", "write")
DONE = "done"


@lru_cache(maxsize=64)
def program(setting: Setting) -> tuple[str, ...]:
    """The steps of a mode, or what a flaw makes of them."""
    steps = list(PROGRAMS[setting.mode])
    if setting.flaw is Flaw.MARKER_BEFORE_FENCE:
        steps[:2] = ["look", "lease"]
    elif setting.flaw is Flaw.LEASE_IN_STREAM_WRITER:
        steps.insert(3, "lease again")
    elif setting.flaw is Flaw.NO_MARKER:
        steps.remove("look")
    return (*steps, DONE)


def task_request(setting: Setting, task: Task) -> Request:
    """The next row of a task. The order of rows is not the same in the next attempt: Spark does not promise it."""
    numbers = setting.rows(task.query, task.batch)[task.partition]
    number = numbers[::-1][task.place] if task.attempt else numbers[task.place]
    row = Row(task.query, task.batch, number)
    return _write(setting, task.epoch, task.partition + 1, task.place, row, added=task.added)


def try_request(setting: Setting, attempt: Try) -> Request | None:
    """The request a try waits for; None where its next step is none of the broker's business."""
    step = attempt.step
    if step in ("lease", "lease again"):
        return Request("lease")
    if step == "end":
        return Request("commit", attempt.epoch)
    if step == "abort":
        return Request("abort", attempt.epoch)
    if step == "mark":
        row = Row(attempt.query, attempt.batch, MARKER)
        return _write(setting, attempt.epoch, CONTROL, 0, row, added=attempt.added)
    if step == "write":
        partition, sequence, number = rows_in_order(setting, attempt.query, attempt.batch)[attempt.place]
        row = Row(attempt.query, attempt.batch, number)
        return _write(setting, attempt.epoch, partition, sequence, row, added=attempt.added)
    return None


@lru_cache(maxsize=256)
def rows_in_order(setting: Setting, query: int, batch: int) -> tuple[tuple[int, int, int], ...]:
    """Partition, sequence and number of each row, as the one writer sends them."""
    return tuple(
        (at + 1, sequence, number)
        for at, numbers in enumerate(setting.rows(query, batch))
        for sequence, number in enumerate(numbers)
    )


def _write(setting: Setting, epoch: int, partition: int, sequence: int, row: Row, *, added: bool) -> Request:
    if not setting.rules.moves_epoch and not added:
        return Request("add", epoch, partition)
    return Request("produce", epoch, partition, sequence, row)


def served(broker: Broker, setting: Setting, request: Request) -> tuple[Broker, Answer]:
    """What the broker does with a request; with one flaw, more than it should."""
    after, answer = deliver(broker, setting.rules, request)
    if setting.flaw is Flaw.ABORT_UNDECIDED and request.kind == "abort" and broker.phase is Phase.PREPARE_COMMIT:
        own = broker.epoch - 1 if setting.rules.moves_epoch else broker.epoch
        if request.epoch == own:
            return broker._replace(phase=Phase.PREPARE_ABORT), Answer.OK
    return after, answer


def without_the_void(world: World, setting: Setting) -> World:
    """Forget what can never have an effect again: late requests and zombies whose epoch is over."""
    broker, rules = world.broker, setting.rules
    net = tuple(request for request in world.net if not is_void(broker, rules, request))
    tasks = tuple(
        task for task in world.tasks if not (task.is_zombie and is_void(broker, rules, task_request(setting, task)))
    )
    tries = tuple(attempt for attempt in world.tries if not _is_over(world, setting, attempt))
    if (net, tasks, tries) == (world.net, world.tasks, world.tries):
        return world
    return world._replace(net=net, tasks=tasks, tries=tries)


def _is_over(world: World, setting: Setting, attempt: Try) -> bool:
    if not attempt.is_zombie:
        return False
    request = try_request(setting, attempt)
    return request is not None and is_void(world.broker, setting.rules, request)
