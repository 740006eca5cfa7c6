"""What is different where all tasks of the format `kafka-eos` write: Spark runs its tasks again, and nobody the batch.

    lease, look      of the first task that comes; where that is lost, of the next one
    tasks            in turns, as `turns` has it; each says that it is done, and then Spark has its result
    anew             a task was lost: another lease, and all tasks again that Spark has no result of
    mark, end, note  of the commit worker

Rule 1. The batch begins anew only if no task is done under its lease but the one that is run again.
Rule 2. What is committed are results of one lease, and all that was written under it.
Rule 3. A commit that fails ends the query.
"""

from tests.sink_model.requests import first_try, try_request
from tests.sink_model.settings import Flaw, Setting
from tests.sink_model.steps import Moves, given_up, gives_up, name, start_tasks, stopped, to_next
from tests.sink_model.world import Task, Try, World, changed, sent, tasks_changed

_RUNNING = ("identify", "settle", "lease", "look", "tasks")
"""Where a try is while Spark runs its tasks."""


def is_done(world: World, task: Task, owner: Try) -> World:
    """It has given its last turn back and said that it is done; Spark has not heard its result yet."""
    done = tuple(sorted({*owner.done, task.number}))
    heard = task._replace(is_done=True, turn=-1, is_answered=False, added=False)
    return tasks_changed(changed(world, owner, owner._replace(done=done)), task, heard)


def result(world: World, setting: Setting, task: Task) -> Moves:
    """Spark has the result of a task, and stops other attempts of it; with the last one the commit begins."""
    said = ("{}: Spark has its result", name(task))
    owner = _running(world, task)
    world = tasks_changed(world, task)
    if task.is_zombie or owner is None or task.number in dict(owner.results):
        yield said, world
        return
    for other in world.tasks:
        if (other.driver, other.batch, other.number) == (task.driver, task.batch, task.number) and not other.is_zombie:
            world = tasks_changed(world, other, other._replace(is_zombie=True))
    heard = owner._replace(results=tuple(sorted({*owner.results, (task.number, task.epoch)})))
    world = changed(world, owner, heard)
    if len(heard.results) < len(_wanted(setting, heard)):
        yield said, world
    elif _is_complete(setting, heard):
        finished = heard._replace(turns=(), admitted=(), done=(), results=())
        yield said, to_next(changed(world, heard, finished), setting, finished)
    else:
        yield from ends(world, setting, heard, ("{}: Spark has results of several leases", name(heard)))


def _is_complete(setting: Setting, owner: Try) -> bool:
    """Rule 2."""
    if owner.step != "tasks":
        return False
    if setting.flaw is Flaw.LEASES_NOT_COMPARED:
        return True
    of_this_lease = {epoch for _, epoch in owner.results} == {owner.epoch}
    return of_this_lease and {number for number, _ in owner.results} == set(owner.done) and min(owner.turns) >= 0


def _wanted(setting: Setting, owner: Try) -> list[int]:
    """The tasks with rows."""
    batch = (owner.query, owner.batch, owner.plan)
    return [number for number in range(setting.tasks) if setting.rows_of_task(number, *batch)]


def _running(world: World, task: Task) -> Try | None:
    """The try whose tasks Spark runs, under whatever lease."""
    for attempt in world.tries:
        is_its = (attempt.driver, attempt.query, attempt.batch) == (task.driver, task.query, task.batch)
        if is_its and not attempt.is_zombie and attempt.step in _RUNNING:
            return attempt
    return None


def ends(world: World, setting: Setting, owner: Try, said: tuple[object, ...]) -> Moves:
    """Spark gives the batch up, and the query ends."""
    if gives_up(setting):
        yield said, given_up(world, owner)
    yield said, stopped(world, owner)


def task_failed(world: World, setting: Setting, owner: Try, task: Task, said: tuple[object, ...]) -> Moves:
    """The broker refuses a task. Spark runs it again, or gives up."""
    yield from ends(world, setting, owner, said)
    left = world.left
    if left.attempts and _may_begin_anew(owner, task):
        fewer = world._replace(left=left._replace(attempts=left.attempts - 1))
        yield (f"{said[0]}; the batch begins anew", *said[1:]), _anew(fewer, setting, owner)


def more_attempts(world: World, setting: Setting, owner: Try, task: Task) -> Moves:
    """Spark starts another attempt of a task: beside it, in its place, or because its result was lost."""
    if task.is_done:
        if _may_begin_anew(owner, task):
            yield ("{}: its result is lost or late, the batch begins anew", name(task)), _anew(world, setting, owner)
        else:
            yield from ends(world, setting, owner, ("{}: its result is lost, others are done", name(task)))
        return
    lost = tasks_changed(world, task, task._replace(is_zombie=True))
    if owner.admitted[task.number] == task.attempt:
        if _may_begin_anew(owner, task):
            yield ("{}: is lost after its first turn, the batch begins anew", name(task)), _anew(lost, setting, owner)
        else:
            yield from ends(lost, setting, owner, ("{}: is lost after its first turn, others are done", name(task)))
    elif not any(one.number == task.number and one.epoch == task.epoch and one != task for one in world.tasks):
        other = task._replace(attempt=task.attempt + 1)
        yield ("{}: Spark starts a copy beside it", name(task)), tasks_changed(world, None, other)
        yield (
            ("{}: is lost before its first turn, Spark starts another attempt", name(task)),
            tasks_changed(lost, None, other),
        )


def _may_begin_anew(owner: Try, task: Task) -> bool:
    """Rule 1."""
    return set(owner.done) <= {task.number}


def _anew(world: World, setting: Setting, owner: Try) -> World:
    """The tasks of the lease before do not know, and Spark believes them if they are done."""
    if setting.flaw is Flaw.RETRY_UNDER_SAME_LEASE:
        entered = owner._replace(is_again=True, done=())
        return start_tasks(changed(world, owner, entered), setting, entered)
    return changed(world, owner, _beginning(setting, owner))


def _beginning(setting: Setting, owner: Try) -> Try:
    first = first_try(setting, owner.driver, owner.query, owner.batch, owner.sink, owner.plan)
    return first._replace(is_again=True, results=owner.results)


def lose_the_opener(world: World, setting: Setting, attempt: Try) -> Moves:
    """The task that takes the lease, or looks at the marker, is lost; the next one takes a lease of its own."""
    if attempt.step in ("settle", "lease", "look"):
        late = sent(world, try_request(setting, attempt))
        said = ("{}: the task that takes the lease is lost in {}, the next one takes one", name(attempt), attempt.step)
        yield said, changed(late, attempt, _beginning(setting, attempt))
