"""All moves: what tries and tasks do, what the broker does by itself, and what goes wrong.

Nothing is said about time: whatever can happen may happen now, or at any later moment, or never.
"""

from tests.sink_model.kafka import CONTROL, PREPARED, Phase, fence, write_end_marker
from tests.sink_model.requests import TASK_STEPS, program, served, task_request, try_request, without_the_void
from tests.sink_model.settings import Flaw, Mode, Setting
from tests.sink_model.steps import Moves, aborts, again, name, steps_of_task, steps_of_try
from tests.sink_model.world import Task, Try, World, arrived, changed, sent, tasks_changed


def moves(world: World, setting: Setting) -> Moves:
    """Every move of a state."""
    for sentence, after in _all(world, setting):
        if after != world:
            yield sentence, without_the_void(after, setting)


def _all(world: World, setting: Setting) -> Moves:
    yield from without_faults(world, setting)
    yield from _starts(world, setting)
    yield from _late_requests(world, setting)
    yield from _timeout(world)
    for attempt in world.tries:
        if not attempt.is_zombie:
            yield from _attempts(world, setting, attempt)
            yield from _repeats(world, setting, attempt)
    if world.left.repeats:
        for task in world.tasks:
            if not task.is_zombie:
                copied = sent(world, task_request(setting, task))
                yield ("{}: sends a request again, the first one is under way", name(task)), _repeated(copied)


def without_faults(world: World, setting: Setting) -> Moves:
    """What goes on by itself."""
    yield from end_markers(world)
    for attempt in world.tries:
        yield from steps_of_try(world, setting, attempt)
    for task in world.tasks:
        yield from steps_of_task(world, setting, task)


def end_markers(world: World) -> Moves:
    broker = world.broker
    if broker.phase in PREPARED:
        number = broker.members[0]
        where = "the control topic" if number == CONTROL else f"partition {number}"
        said = ("the coordinator writes {} to {}", broker.phase.value.removeprefix("prepare "), where)
        yield said, world._replace(broker=write_end_marker(broker, number))


def new_try(world: World, setting: Setting, driver: int) -> World:
    """A driver begins where the newest checkpoint says."""
    query = len(world.noted) - 1
    batch = world.noted[query]
    if batch >= len(setting.queries[query]):
        return world
    return changed(world, None, Try(driver, query, batch, program(setting)[0]))


def _starts(world: World, setting: Setting) -> Moves:
    """A driver starts, whether an earlier one is dead or not; perhaps on a checkpoint that was emptied."""
    left = world.left
    if not left.drivers:
        return
    driver = setting.drivers - left.drivers
    fewer = world._replace(left=left._replace(drivers=left.drivers - 1))
    started = new_try(fewer, setting, driver)
    if started != fewer:
        yield ("driver {} starts with batch {}", driver, world.noted[-1]), started
    if len(world.noted) < len(setting.queries):
        anew = fewer._replace(noted=(*world.noted, 0))
        yield ("the checkpoint is emptied, driver {} starts", driver), new_try(anew, setting, driver)


def _late_requests(world: World, setting: Setting) -> Moves:
    for request in dict.fromkeys(world.net):
        broker, answer = served(world.broker, setting, request)
        said = ("a late {} of epoch {} arrives; nobody hears the answer: {}", request.kind, request.epoch, answer.value)
        yield said, arrived(world, request)._replace(broker=broker)


def _timeout(world: World) -> Moves:
    left = world.left
    if world.broker.phase is Phase.ONGOING and left.timeouts:
        after = world._replace(broker=fence(world.broker), left=left._replace(timeouts=left.timeouts - 1))
        yield ("the transaction is too old, the coordinator aborts it",), after


def _attempts(world: World, setting: Setting, attempt: Try) -> Moves:
    """Spark gives up an attempt that lives, and starts another one."""
    left = world.left
    if not left.attempts:
        return
    fewer = world._replace(left=left._replace(attempts=left.attempts - 1))
    if setting.mode is Mode.ONE_WRITER:
        if attempt.step in TASK_STEPS:
            zombie = changed(fewer, attempt, attempt._replace(is_zombie=True))
            other = Try(attempt.driver, attempt.query, attempt.batch, program(setting)[0])
            yield ("{}: Spark starts another attempt beside it", name(attempt)), changed(zombie, None, other)
        return
    for task in world.tasks:
        if task.driver == attempt.driver and not task.is_zombie:
            yield from _second_attempt(fewer, setting, attempt, task)
    if attempt.step in ("mark", "end"):
        waited_enough = sent(fewer, try_request(setting, attempt))
        yield (
            ("{}: waits no longer for {}, tries again", name(attempt), attempt.step),
            again(waited_enough, setting, attempt),
        )


def _second_attempt(world: World, setting: Setting, attempt: Try, task: Task) -> Moves:
    if setting.flaw is Flaw.TWO_ATTEMPTS:
        zombie = tasks_changed(world, task, task._replace(is_zombie=True))
        other = Task(task.driver, task.query, task.batch, task.epoch, task.partition, 1 - task.attempt)
        yield ("{}: Spark starts another attempt, which may write, too", name(task)), tasks_changed(zombie, None, other)
    else:
        yield (
            ("{}: Spark starts another attempt, its claim is refused, the batch is tried again", name(task)),
            again(world, setting, attempt),
        )


def _repeats(world: World, setting: Setting, attempt: Try) -> Moves:
    """A request is sent again; in mode A1 a driver may also lose patience with its last requests, and abort."""
    if not world.left.repeats:
        return
    request = try_request(setting, attempt)
    if request is None:
        return
    copied = _repeated(sent(world, request))
    yield ("{}: sends {} again, the first one is under way", name(attempt), attempt.step), copied
    if aborts(setting) and attempt.step in ("mark", "end"):
        aborting = attempt._replace(step="abort", added=False)
        yield ("{}: waits no longer for {}, aborts", name(attempt), attempt.step), changed(copied, attempt, aborting)


def _repeated(world: World) -> World:
    return world._replace(left=world.left._replace(repeats=world.left.repeats - 1))
