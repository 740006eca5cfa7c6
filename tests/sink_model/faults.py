"""All moves: what tries and tasks do, what the broker does by itself, and what goes wrong.

Nothing is said about time: whatever can happen may happen now, or at any later moment, or never.
"""

from tests.sink_model import shared
from tests.sink_model.kafka import CONTROL, PREPARED, Phase, fence, write_end_marker
from tests.sink_model.requests import (
    TASK_STEPS,
    first_try,
    owner_of,
    served,
    task_request,
    try_request,
    without_the_void,
)
from tests.sink_model.settings import Mode, Setting
from tests.sink_model.steps import Moves, again, given_up, gives_up, name, steps_of_try
from tests.sink_model.turns import more_attempts, steps_of_task
from tests.sink_model.world import Try, World, arrived, broker_changed, changed, sent, tasks_changed


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
            request = task_request(setting, task)
            if not task.is_zombie and request is not None:
                copied = sent(world, request)
                yield ("{}: sends a request again, the first one is under way", name(task)), _repeated(copied)


def without_faults(world: World, setting: Setting) -> Moves:
    """What goes on by itself."""
    yield from end_markers(world)
    for attempt in world.tries:
        yield from steps_of_try(world, setting, attempt)
    for task in world.tasks:
        yield from steps_of_task(world, setting, task)


def end_markers(world: World) -> Moves:
    for sink, broker in enumerate(world.brokers):
        if broker.phase in PREPARED:
            number = broker.members[0]
            where = "the control topic" if number == CONTROL else f"partition {number}"
            said = ("the coordinator writes {} to {}", broker.phase.value.removeprefix("prepare "), where)
            yield said, broker_changed(world, sink, write_end_marker(broker, number))


def new_try(world: World, setting: Setting, driver: int) -> World:
    """A driver begins where the newest checkpoint says."""
    query = len(world.noted) - 1
    batch = len(world.noted[query])
    if batch >= len(setting.queries[query]):
        return world
    return changed(world, None, first_try(setting, driver, query, batch, world.path, world.plan))


def _starts(world: World, setting: Setting) -> Moves:
    """A driver starts, whether an earlier one is dead or not; perhaps on a checkpoint that was emptied, moved, copied,
    or replaced by an older copy.
    """
    left = world.left
    if not left.drivers:
        return
    driver = setting.drivers - left.drivers
    fewer = world._replace(left=left._replace(drivers=left.drivers - 1))
    if setting.is_upgrade:
        fewer = _without_the_living(fewer, setting)
    started = new_try(fewer, setting, driver)
    if started != fewer:
        yield ("driver {} starts with batch {}", driver, len(world.noted[-1])), started
    if left.moves:
        moved = fewer._replace(path=world.path + 1, left=fewer.left._replace(moves=left.moves - 1))
        yield ("the checkpoint is moved or copied, driver {} starts there", driver), new_try(moved, setting, driver)
    if left.restores and world.noted[-1]:
        noted = (*world.noted[:-1], world.noted[-1][:-1])
        older = fewer._replace(noted=noted, plan=world.plan + 1, left=fewer.left._replace(restores=left.restores - 1))
        yield ("the checkpoint is replaced by an older copy, driver {} starts", driver), new_try(older, setting, driver)
    if len(world.noted) < len(setting.queries):
        anew = fewer._replace(noted=(*world.noted, ()))
        yield ("the checkpoint is emptied, driver {} starts", driver), new_try(anew, setting, driver)


def _without_the_living(world: World, setting: Setting) -> World:
    """All drivers are dead; what they have sent last is under way, and their tasks do not know."""
    for attempt in world.tries:
        if not attempt.is_zombie:
            world = changed(sent(world, try_request(setting, attempt)), attempt)
    for task in world.tasks:
        if not task.is_zombie:
            world = tasks_changed(world, task, task._replace(is_zombie=True))
    return world


def _late_requests(world: World, setting: Setting) -> Moves:
    for request in dict.fromkeys(world.net):
        broker, answer = served(world.brokers[request.sink], setting, request)
        said = ("a late {} of epoch {} arrives; nobody hears the answer: {}", request.kind, request.epoch, answer.value)
        yield said, broker_changed(arrived(world, request), request.sink, broker)


def _timeout(world: World) -> Moves:
    left = world.left
    for sink, broker in enumerate(world.brokers):
        if broker.phase is Phase.ONGOING and left.timeouts:
            fewer = world._replace(left=left._replace(timeouts=left.timeouts - 1))
            yield ("the transaction is too old, the coordinator aborts it",), broker_changed(fewer, sink, fence(broker))


def _attempts(world: World, setting: Setting, attempt: Try) -> Moves:
    """Spark gives up an attempt that lives, and starts another one."""
    left = world.left
    if left.stops and attempt.epoch >= 0 and attempt.step not in ("note", "abort"):
        fewer = world._replace(left=left._replace(stops=left.stops - 1))
        said = ("{}: Spark gives the batch up in {}, and the driver aborts", name(attempt), attempt.step)
        if attempt.step in TASK_STEPS:
            left_behind = changed(fewer, None, attempt._replace(is_zombie=True))
        else:
            left_behind = sent(fewer, try_request(setting, attempt))
        yield said, given_up(left_behind, attempt)
    if not left.attempts:
        return
    fewer = world._replace(left=left._replace(attempts=left.attempts - 1))
    if setting.mode is Mode.ONE_WRITER:
        if attempt.step in TASK_STEPS:
            zombie = changed(fewer, attempt, attempt._replace(is_zombie=True))
            other = first_try(setting, attempt.driver, attempt.query, attempt.batch, attempt.sink, attempt.plan)
            yield ("{}: Spark starts another attempt beside it", name(attempt)), changed(zombie, None, other)
        return
    if setting.mode is Mode.ALL_TASKS:
        yield from _of_shared(fewer, setting, attempt)
        return
    for task in world.tasks:
        if task.driver == attempt.driver and not task.is_zombie:
            yield from more_attempts(fewer, setting, attempt, task)
    if attempt.step in ("mark", "end"):
        waited_enough = sent(fewer, try_request(setting, attempt))
        yield (
            ("{}: waits no longer for {}, tries again", name(attempt), attempt.step),
            again(waited_enough, setting, attempt),
        )


def _of_shared(world: World, setting: Setting, attempt: Try) -> Moves:
    yield from shared.lose_the_opener(world, setting, attempt)
    for task in world.tasks:
        if not task.is_zombie and owner_of(world, task) == attempt:
            yield from shared.more_attempts(world, setting, attempt, task)


def _repeats(world: World, setting: Setting, attempt: Try) -> Moves:
    """A request is sent again; in mode A1 a driver may also lose patience with its last requests, and abort."""
    if not world.left.repeats:
        return
    request = try_request(setting, attempt)
    if request is None:
        return
    copied = _repeated(sent(world, request))
    yield ("{}: sends {} again, the first one is under way", name(attempt), attempt.step), copied
    if gives_up(setting) and attempt.step in ("mark", "end"):
        yield ("{}: waits no longer for {}, aborts", name(attempt), attempt.step), given_up(copied, attempt)


def _repeated(world: World) -> World:
    return world._replace(left=world.left._replace(repeats=world.left.repeats - 1))
