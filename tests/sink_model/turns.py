"""What tasks do that write to all partitions under one lease, each in its turn.

    task -> driver   may I write to this partition?      driver -> task   yes, from this sequence on
    task -> broker   the rows                            broker -> task   acknowledged
    task -> driver   here is the turn back, the next sequence is this one

Rule 1. A partition is one task's at a time, and the next one's after the broker has acknowledged the former's rows.
Rule 2. The first attempt of a task that has a turn is admitted, and no other attempt of that task gets any.
Rule 3. A turn that is not given back is nobody's: the batch is tried again as a whole, under a new lease.
Rule 4. The driver answers as long as its tasks run under that lease, to whoever asks: it cannot know who is given up.

A task that dies with a turn is one that takes no further step; its last request may still arrive.
"""

from tests.sink_model.kafka import Answer
from tests.sink_model.requests import owner_of, rows_of, served, task_request
from tests.sink_model.settings import Flaw, Mode, Setting
from tests.sink_model.shared import is_done, result, task_failed
from tests.sink_model.steps import Moves, again, failed, name, to_next
from tests.sink_model.world import Task, Try, World, broker_changed, changed, sent, tasks_changed


def steps_of_task(world: World, setting: Setting, task: Task) -> Moves:
    """Ask for a turn, write a row in it, give it back; and so on to the last row."""
    owner = owner_of(world, task)
    if task.turn >= 0 and not task.is_answered:
        yield from _write(world, setting, task)
    elif task.is_done:
        yield from result(world, setting, task)
    elif owner is None:
        yield ("{}: the lease it writes under is over for its driver, it ends", name(task)), tasks_changed(world, task)
    elif task.is_answered:
        yield _give_back(world, setting, task, owner)
    else:
        yield from _ask(world, setting, task, owner)


def _ask(world: World, setting: Setting, task: Task, owner: Try) -> Moves:
    admitted = owner.admitted[task.number]
    if admitted not in (-1, task.attempt) and setting.flaw is not Flaw.TWO_ATTEMPTS:
        yield from _refused(world, setting, task, owner)
        return
    partition = rows_of(setting, task)[task.place][0]
    turn = owner.turns[partition]
    if turn < 0:
        if setting.flaw is not Flaw.PASSED_ON or not _has_lost_its_holder(world, setting, task, partition):
            return
        turn = taken(turn)
    if setting.flaw is Flaw.FROM_ZERO:
        turn = 0
    marked = _with(owner.turns, partition, taken(turn))
    heard = owner._replace(turns=marked, admitted=_with(owner.admitted, task.number, task.attempt))
    said = ("{}: gets its turn in partition {} from sequence {} on", name(task), partition, turn)
    yield said, tasks_changed(changed(world, owner, heard), task, task._replace(turn=turn))


def taken(turn: int) -> int:
    """How a turn is noted while a task has it; and back again."""
    return -1 - turn


def _has_lost_its_holder(world: World, setting: Setting, asking: Task, partition: int) -> bool:
    """Whether nobody will give a turn back, as far as Spark knows."""
    for task in world.tasks:
        has_it = task.turn >= 0 and rows_of(setting, task)[task.place][0] == partition
        if has_it and not task.is_zombie and owner_of(world, task) == owner_of(world, asking):
            return False
    return True


def _refused(world: World, setting: Setting, task: Task, owner: Try) -> Moves:
    """Another attempt of the task has had a turn. That one may go on; or Spark gives the batch up."""
    after = tasks_changed(world, task)
    said = "{}: another attempt writes for it, it is refused"
    if task.is_zombie:
        yield (said, name(task)), after
        return
    if setting.mode is Mode.ALL_TASKS:
        yield (f"{said}, or waits", name(task)), after
        return
    if setting.flaw is Flaw.REFUSED_IS_DONE:
        yield (f"{said}, and counts as done", name(task)), _done(after, setting, task)
        return
    yield (f"{said}; that one goes on", name(task)), after
    yield from failed(after, setting, owner, (said, name(task)))


def _write(world: World, setting: Setting, task: Task) -> Moves:
    request = task_request(setting, task)
    assert request is not None
    broker, answer = served(world.brokers[request.sink], setting, request)
    after = broker_changed(world, request.sink, broker)
    said = ("{}: {} of row {} is answered: {}", name(task), request.kind, task.place, answer.value)
    owner = owner_of(world, task)
    if answer is Answer.WAIT:
        yield said, after
    elif answer is not Answer.OK:
        after = tasks_changed(after, task)
        if owner is None or task.is_zombie:
            yield said, after
        elif setting.mode is Mode.ALL_TASKS:
            yield from task_failed(after, setting, owner, task, said)
        else:
            yield from failed(after, setting, owner, said)
    elif request.kind == "add":
        yield said, tasks_changed(after, task, task._replace(added=True))
    else:
        yield said, tasks_changed(after, task, task._replace(is_answered=True))
    if setting.flaw is Flaw.BACK_TOO_SOON and request.kind == "produce":
        gone_on = tasks_changed(sent(world, request), task, task._replace(is_answered=True))
        yield ("{}: sends a row and does not wait", name(task)), gone_on


def _give_back(world: World, setting: Setting, task: Task, owner: Try) -> tuple[tuple[object, ...], World]:
    rows = rows_of(setting, task)
    turns = _with(owner.turns, rows[task.place][0], task.turn + 1)
    after = changed(world, owner, owner._replace(turns=turns))
    following = task._replace(place=task.place + 1, turn=-1, is_answered=False, added=False)
    if following.place < len(rows):
        return ("{}: gives its turn back", name(task)), tasks_changed(after, task, following)
    if setting.mode is Mode.ALL_TASKS:
        owner_after = owner._replace(turns=turns)
        return ("{}: gives its last turn back and says so", name(task)), is_done(after, task, owner_after)
    after = tasks_changed(after, task)
    said = ("{}: gives its last turn back and is done", name(task))
    return said, after if task.is_zombie else _done(after, setting, task)


def _done(world: World, setting: Setting, task: Task) -> World:
    """A task's result reaches the driver; with the last one the writing is over."""
    owner = owner_of(world, task)
    assert owner is not None
    heard = owner._replace(acknowledged=tuple(sorted({*owner.acknowledged, task.number})))
    after = changed(world, owner, heard)
    wanted = [
        number for number in range(setting.tasks) if setting.rows_of_task(number, task.query, task.batch, task.plan)
    ]
    if len(heard.acknowledged) < len(wanted):
        return after
    finished = heard._replace(acknowledged=(), turns=(), admitted=())
    return to_next(changed(after, heard, finished), setting, finished)


def more_attempts(world: World, setting: Setting, owner: Try, task: Task) -> Moves:
    """Spark starts another attempt of a task: beside it, or because it has given it up, which lives all the same."""
    other = Task(task.driver, task.query, task.batch, task.epoch, task.number, 1 - task.attempt)
    other = other._replace(sink=task.sink, plan=task.plan)
    if not any(one.number == task.number and one.epoch == task.epoch and one != task for one in world.tasks):
        yield ("{}: Spark starts another attempt beside it", name(task)), tasks_changed(world, None, other)
        given_up = tasks_changed(world, task, task._replace(is_zombie=True))
        said = ("{}: Spark gives it up and starts another attempt", name(task))
        yield said, tasks_changed(given_up, None, other)
    said = ("{}: is lost with its turn, the batch is tried again", name(task))
    yield said, again(world, setting, owner)


def _with(numbers: tuple[int, ...], at: int, number: int) -> tuple[int, ...]:
    return (*numbers[:at], number, *numbers[at + 1 :])
