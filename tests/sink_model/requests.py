"""The next request of a try or a task to the broker. Follows from where it is, so it is not kept."""

from functools import lru_cache

from tests.sink_model.kafka import CONTROL, MARKER, Answer, Broker, Phase, Request, Row, deliver, is_void
from tests.sink_model.settings import Flaw, Mode, Setting
from tests.sink_model.world import Task, Try, World

PROGRAMS = {
    Mode.ONE_WRITER: ("lease", "look", "write", "mark", "end", "note"),
    Mode.MANY_WRITERS: ("lease", "look", "tasks", "mark", "end", "note"),
    Mode.ALL_TASKS: ("lease", "look", "tasks", "mark", "end", "note"),
}
"""The steps of a try, in order. Those up to `write` are a task's in mode A1, the first two are so with all tasks; the
others are the driver's.
"""
TASK_STEPS = ("lease", "look", "write")
DONE = "done"


OLDER = 1
"""The sink id of the older build, where there is one."""


@lru_cache(maxsize=64)
def program(setting: Setting) -> tuple[str, ...]:
    """The steps of a mode, or what a flaw makes of them."""
    steps = list(PROGRAMS[setting.mode])
    if setting.is_upgrade:
        steps.insert(0, "identify")
    if setting.flaw is Flaw.MARKER_BEFORE_FENCE:
        steps[:2] = ["look", "lease"]
    elif setting.flaw is Flaw.LEASE_IN_STREAM_WRITER:
        steps.insert(3, "lease again")
    elif setting.flaw is Flaw.NO_MARKER:
        steps.remove("look")
    return (*steps, DONE)


def first_try(setting: Setting, driver: int, query: int, batch: int, path: int, plan: int) -> Try:
    """A driver's try at a batch, from its beginning. An older build does not look who it was."""
    is_older = setting.is_upgrade and driver == 0
    step = program(setting)[1 if is_older else 0]
    sink = path if setting.flaw is Flaw.KEYED_BY_PATH else OLDER if is_older else 0
    return Try(driver, query, batch, step, sink=sink, plan=plan)


def task_request(setting: Setting, task: Task) -> Request | None:
    """The next row of a task; none while it asks for its turn or gives it back: that is between it and the driver."""
    if task.turn < 0 or task.is_answered or task.is_done:
        return None
    partition, number = rows_of(setting, task)[task.place]
    return _write(setting, task, partition + 1, task.turn, Row(task.query, task.batch, number))


def rows_of(setting: Setting, task: Task) -> tuple[tuple[int, int], ...]:
    """Partition and number of each row of a task. Their order is another one in the next attempt: Spark does not
    promise it.
    """
    rows = setting.rows_of_task(task.number, task.query, task.batch, task.plan)
    return rows[::-1] if task.attempt else rows


def try_request(setting: Setting, attempt: Try) -> Request | None:
    """The request a try waits for; None where its next step is none of the broker's business."""
    step = attempt.step
    if step in ("lease", "lease again"):
        return Request("lease", sink=attempt.sink)
    if step == "settle":
        return Request("lease", sink=OLDER)
    if step == "end":
        return Request("commit", attempt.epoch, sink=attempt.sink)
    if step == "abort":
        return giving_up(setting, attempt)
    if step == "mark":
        row = Row(attempt.query, attempt.batch, MARKER - attempt.plan)
        return _write(setting, attempt, CONTROL, 0, row)
    if step == "write":
        rows = rows_in_order(setting, attempt.query, attempt.batch, attempt.plan)
        partition, sequence, number = rows[attempt.place]
        return _write(setting, attempt, partition, sequence, Row(attempt.query, attempt.batch, number))
    return None


def giving_up(setting: Setting, attempt: Try) -> Request:
    """EndTxn(abort) where that moves the epoch; else the next lease, for EndTxn would leave the epoch to late requests.

    The next lease is taken only if nobody else has one. It is asked here in any case: then it might be taken from a
    successor, which must do no harm, either.
    """
    by_end = setting.rules.moves_epoch or setting.flaw in (Flaw.ABORT_UNDER_OLD_RULES, Flaw.ABORT_BEFORE_RETRY)
    return Request("abort" if by_end else "lease", attempt.epoch if by_end else -1, sink=attempt.sink)


@lru_cache(maxsize=256)
def rows_in_order(setting: Setting, query: int, batch: int, plan: int) -> tuple[tuple[int, int, int], ...]:
    """Partition, sequence and number of each row, as the one writer sends them."""
    return tuple(
        (at + 1, sequence, number)
        for at, numbers in enumerate(setting.rows(query, batch, plan))
        for sequence, number in enumerate(numbers)
    )


def _write(setting: Setting, who: Try | Task, partition: int, sequence: int, row: Row) -> Request:
    if not setting.rules.moves_epoch and not who.added:
        return Request("add", who.epoch, partition, sink=who.sink)
    return Request("produce", who.epoch, partition, sequence, row, who.sink)


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
    brokers, rules = world.brokers, setting.rules
    net = tuple(request for request in world.net if not is_void(brokers[request.sink], rules, request))
    tasks = tuple(task for task in world.tasks if not (task.is_zombie and _is_void_task(world, setting, task)))
    tries = tuple(attempt for attempt in world.tries if not _is_over(world, setting, attempt))
    if (net, tasks, tries) == (world.net, world.tasks, world.tries):
        return world
    return world._replace(net=net, tasks=tasks, tries=tries)


def _is_void_task(world: World, setting: Setting, task: Task) -> bool:
    request = task_request(setting, task)
    if request is None:
        return owner_of(world, task) is None
    return is_void(world.brokers[task.sink], setting.rules, request)


def owner_of(world: World, task: Task) -> Try | None:
    """The try that gives out the turns of a task's lease, as long as it has tasks: then its answers end."""
    lease = (task.driver, task.query, task.batch, task.epoch, task.sink)
    for attempt in world.tries:
        its = (attempt.driver, attempt.query, attempt.batch, attempt.epoch, attempt.sink)
        if attempt.step == "tasks" and its == lease:
            return attempt
    return None


def _is_over(world: World, setting: Setting, attempt: Try) -> bool:
    if not attempt.is_zombie:
        return False
    request = try_request(setting, attempt)
    return request is not None and is_void(world.brokers[request.sink], setting.rules, request)
