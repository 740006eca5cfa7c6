"""What tries and tasks do when nothing goes wrong, or when the broker says that something did."""

from collections.abc import Iterator

from tests.sink_model.explore import Sentence
from tests.sink_model.kafka import CONTROL, MARKER, Answer, Phase, committed, undecided
from tests.sink_model.requests import (
    DONE,
    OLDER,
    first_try,
    program,
    rows_in_order,
    served,
    try_request,
)
from tests.sink_model.settings import Flaw, Mode, Setting
from tests.sink_model.world import Task, Try, World, broker_changed, changed, sent, tasks_changed

Moves = Iterator[tuple[Sentence, World]]

_UNDER_A_LEASE = ("write", "tasks", "mark", "end", "lease again")
_OPEN = (Phase.ONGOING, Phase.PREPARE_COMMIT, Phase.PREPARE_ABORT)
OLDER_COPY = "finds that its checkpoint is an older copy"


def steps_of_try(world: World, setting: Setting, attempt: Try) -> Moves:
    """One step of a try: its request arrives and is answered, or it does what needs no broker."""
    if attempt.step == "identify":
        yield _identify(world, setting, attempt)
    elif attempt.step == "look":
        yield from _look(world, setting, attempt)
    elif attempt.step == "note":
        yield _note(world, setting, attempt)
    elif attempt.step == "tasks":
        return
    else:
        yield from _ask(world, setting, attempt)


def _ask(world: World, setting: Setting, attempt: Try) -> Moves:
    request = try_request(setting, attempt)
    assert request is not None
    broker, answer = served(world.brokers[request.sink], setting, request)
    after = broker_changed(world, request.sink, broker)
    said: Sentence = ("{}: {} is answered: {}", name(attempt), attempt.step, answer.value)
    if answer is Answer.WAIT:
        yield said, after
    elif attempt.step == "abort":
        yield said, _given_up(after, setting, attempt)
    elif answer is Answer.OK:
        yield said, _went_on(after, setting, attempt, request.kind)
    else:
        yield from failed(after, setting, attempt, said)
    if setting.flaw is Flaw.NOTE_BEFORE_END and attempt.step == "end":
        yield ("{}: sends EndTxn and does not wait", name(attempt)), to_next(sent(world, request), setting, attempt)


def _went_on(world: World, setting: Setting, attempt: Try, kind: str) -> World:
    """The world after a request that was done."""
    if kind == "add":
        return changed(world, attempt, attempt._replace(added=True))
    attempt_after = attempt._replace(added=False)
    if attempt.step == "settle":
        return changed(world, attempt, attempt_after._replace(step="identify"))
    if attempt.step == "lease":
        attempt_after = attempt_after._replace(epoch=world.brokers[attempt.sink].epoch)
    elif attempt.step == "write":
        attempt_after = attempt_after._replace(place=attempt.place + 1)
        if attempt_after.place < len(rows_in_order(setting, attempt.query, attempt.batch, attempt.plan)):
            return changed(world, attempt, attempt_after)
        if attempt.is_zombie:
            return changed(world, attempt)
    return to_next(changed(world, attempt, attempt_after), setting, attempt_after)


def to_next(world: World, setting: Setting, attempt: Try) -> World:
    """Enter the next step. Steps that have nothing to do are passed by."""
    steps = program(setting)
    step = steps[steps.index(attempt.step) + 1]
    is_empty = not any(setting.rows(attempt.query, attempt.batch, attempt.plan))
    if step == "look" and attempt.is_again and setting.flaw is Flaw.RETRY_WITHOUT_LOOKING:
        step = steps[steps.index("look") + 1]
    if step in ("write", "tasks") and is_empty:
        step = steps[steps.index(step) + 1]
    if step == "mark" and is_empty and setting.flaw is Flaw.END_WHEN_EMPTY:
        step = "end"
    if attempt.is_zombie and step not in ("lease", "look", "write"):
        return changed(world, attempt)
    entered = attempt._replace(step=step)
    after = changed(world, attempt, None if step == DONE else entered)
    return start_tasks(after, setting, entered) if step == "tasks" else after


def start_tasks(world: World, setting: Setting, attempt: Try) -> World:
    """Tasks with rows that Spark has no result of; nobody has had a turn yet."""
    turns = attempt.turns or (0,) * setting.partitions()
    world = changed(world, attempt, attempt._replace(turns=turns, admitted=(-1,) * setting.tasks))
    for number in range(setting.tasks):
        if number in dict(attempt.results):
            continue
        if setting.rows_of_task(number, attempt.query, attempt.batch, attempt.plan):
            task = Task(attempt.driver, attempt.query, attempt.batch, attempt.epoch, number, int(attempt.is_again))
            world = tasks_changed(world, None, task._replace(sink=attempt.sink, plan=attempt.plan))
    return world


def _identify(world: World, setting: Setting, attempt: Try) -> tuple[Sentence, World]:
    """Whose query it is: an id under which it has markers stays its id. What an older build has left open in the first
    batch is settled before anything is written under the new one; readers would wait for it.
    """
    older = world.brokers[OLDER]
    if not _has_markers(world, attempt, 0):
        if _has_markers(world, attempt, OLDER) and setting.flaw is not Flaw.OLD_NAME_FORGOTTEN:
            said: Sentence = ("{}: finds markers under the older name and keeps it", name(attempt))
            return said, changed(world, attempt, attempt._replace(step="lease", sink=OLDER))
        if attempt.batch == 0 and older.phase in _OPEN and setting.flaw is not Flaw.OLD_NAME_FORGOTTEN:
            said = ("{}: settles what is open under the older name", name(attempt))
            return said, changed(world, attempt, attempt._replace(step="settle"))
    return ("{}: writes under its own name", name(attempt)), changed(world, attempt, attempt._replace(step="lease"))


def _has_markers(world: World, attempt: Try, sink: int) -> bool:
    log = world.brokers[sink].partitions[CONTROL].log
    return any(row.query == attempt.query for row in (*committed(log), *undecided(log)))


def _look(world: World, setting: Setting, attempt: Try) -> Moves:
    """Read the marker up to the high watermark, and distinguish committed from aborted by the end markers.

    Another sink has a transaction open in front of everything, so the last stable offset is 0 all the time.
    """
    log = world.brokers[attempt.sink].partitions[CONTROL].log
    by_sink = setting.flaw is Flaw.SKIP_BY_SINK
    shown = () if setting.flaw is Flaw.MARKER_UP_TO_STABLE else committed(log)
    markers = [row for row in shown if row.number <= MARKER and (by_sink or row.query == attempt.query)]
    last = markers[-1].batch if markers else -1
    is_other = last == attempt.batch and markers[-1].number != MARKER - attempt.plan
    if is_other and setting.flaw is not Flaw.NOT_COMPARED:
        yield from failed(world, setting, attempt, (f"{{}}: {OLDER_COPY}", name(attempt)))
    elif last == attempt.batch or (by_sink and last > attempt.batch):
        said: Sentence = ("{}: finds its marker and writes nothing", name(attempt))
        after = attempt._replace(step="end")
        yield said, to_next(changed(world, attempt, after), setting, after)
    elif last > attempt.batch:
        yield from failed(world, setting, attempt, (f"{{}}: {OLDER_COPY}", name(attempt)))
    elif _is_fenced_first(setting) and any(row.query == attempt.query for row in undecided(log)):
        yield from failed(world, setting, attempt, ("{}: finds a marker that must not be there", name(attempt)))
    else:
        yield ("{}: finds no marker of its batch", name(attempt)), to_next(world, setting, attempt)


def _is_fenced_first(setting: Setting) -> bool:
    """After a fence no marker of the query is undecided; the sink refuses to go on if it finds one."""
    return setting.flaw is not Flaw.MARKER_BEFORE_FENCE


def _note(world: World, setting: Setting, attempt: Try) -> tuple[Sentence, World]:
    """Spark notes the batch as done, once; a second driver that wants to note it again stops."""
    query, batch = attempt.query, attempt.batch
    if len(world.noted[query]) != batch:
        return ("{}: stops, Spark has noted the batch already", name(attempt)), changed(world, attempt)
    noted = (*world.noted[:query], (*world.noted[query], attempt.plan), *world.noted[query + 1 :])
    following = None
    if batch + 1 < len(setting.queries[query]):
        following = first_try(setting, attempt.driver, query, batch + 1, attempt.sink, attempt.plan)
    after = changed(world._replace(noted=noted), attempt, following)
    return ("{}: Spark notes the batch as done", name(attempt)), after


def failed(world: World, setting: Setting, attempt: Try, said: Sentence) -> Moves:
    """The broker refuses. A zombie ends; a driver gives up and stops, or in mode An tries again."""
    if attempt.is_zombie:
        yield said, changed(world, attempt)
        return
    if gives_up(setting) and attempt.step in _UNDER_A_LEASE:
        yield said, given_up(world, attempt)
        if setting.mode is not Mode.MANY_WRITERS:
            return
    yield said, stopped(world, attempt)
    if setting.mode is Mode.MANY_WRITERS and world.left.attempts and attempt.step != "look":
        left = world.left._replace(attempts=world.left.attempts - 1)
        yield (f"{said[0]}; tries again", *said[1:]), again(world._replace(left=left), setting, attempt)


def gives_up(setting: Setting) -> bool:
    """Whether a driver that stops aborts. In mode A1 with its last requests it may always lose patience, too."""
    return bool(setting.stops) or (
        setting.mode is Mode.ONE_WRITER and (setting.rules.moves_epoch or setting.flaw is Flaw.ABORT_UNDER_OLD_RULES)
    )


def given_up(world: World, attempt: Try) -> World:
    """The driver aborts, and its tasks do not know."""
    aborting = attempt._replace(step="abort", added=False, acknowledged=(), turns=(), admitted=(), done=(), results=())
    return _zombies(changed(world, attempt, aborting), attempt)


def _given_up(world: World, setting: Setting, attempt: Try) -> World:
    """After an abort: the driver stops; or, with the flaw, takes the next lease."""
    if setting.flaw is Flaw.ABORT_BEFORE_RETRY:
        return changed(world, attempt, _first_step(setting, attempt))
    return stopped(world, attempt)


def stopped(world: World, attempt: Try) -> World:
    """The driver is gone; its tasks do not know."""
    return _zombies(changed(world, attempt), attempt)


def again(world: World, setting: Setting, attempt: Try) -> World:
    """The whole batch anew (An): under a new lease, and with a new look at the marker."""
    world = _zombies(world, attempt)
    if setting.flaw is Flaw.RETRY_UNDER_SAME_LEASE:
        entered = attempt._replace(step="tasks", added=False, is_again=True, acknowledged=())
        return start_tasks(changed(world, attempt, entered), setting, entered)
    if setting.flaw is Flaw.ABORT_BEFORE_RETRY:
        return changed(world, attempt, attempt._replace(step="abort", added=False, turns=(), admitted=()))
    return changed(world, attempt, _first_step(setting, attempt))


def _first_step(setting: Setting, attempt: Try) -> Try:
    first = first_try(setting, attempt.driver, attempt.query, attempt.batch, attempt.sink, attempt.plan)
    return first._replace(is_again=True)


def _zombies(world: World, attempt: Try) -> World:
    for task in world.tasks:
        if task.driver == attempt.driver and not task.is_zombie:
            world = tasks_changed(world, task, task._replace(is_zombie=True))
    return world


def name(who: Try | Task) -> str:
    """Its name, in words."""
    batch = f"batch {who.batch}" if who.query == 0 else f"batch {who.batch} of the new checkpoint"
    if isinstance(who, Task):
        kind = "zombie task" if who.is_zombie else "task"
        return f"{kind} {who.number} of driver {who.driver} ({batch}, epoch {who.epoch})"
    return f"{'zombie task' if who.is_zombie else 'driver'} {who.driver} ({batch}, epoch {who.epoch})"
