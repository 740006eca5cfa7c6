"""Which faults a seed has."""

from random import Random

from broker.faults.points import POINTS, Action, Point, Refusal
from tests.harness.environment import NO_THREAD, ONE_THREAD, OPENING
from tests.simulation.shape import FaultPlan

OPERATIONS = (
    "append",
    "after append",
    "sync",
    "after sync",
    "sync_folder",
    "create",
    "rename",
    "after rename",
    "delete",
    "truncate",
    "write_whole",
    "after write_whole",
    "write_whole rename",
    "make_folder",
)
"""What may happen to the disk, for a fault to strike there."""
LOADING = "load a shard"
THREAD, NO_MORE = "thread", "no more threads"
"""A thread fails in its work, of which "blocking" is what the disk makes wait, and "beside" what takes long; none can
be started any more."""
START_MOMENTS = (OPENING, f"after {OPENING}", LOADING)
"""What happens in a start only, for a fault to strike there: before a log is opened; when it is and the loop has not
heard of it; before a coordinator that loads reads on."""
APIS = (
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "FindCoordinator",
    "InitProducerId",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "TxnOffsetCommit",
    "EndTxn",
    "OffsetCommit",
    "OffsetFetch",
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "CreateTopics",
    "DeleteTopics",
    "DeleteRecords",
    "IncrementalAlterConfigs",
    "UpdateFeatures",
    "ListTransactions",
    "DescribeTransactions",
    "DescribeProducers",
    "WriteTxnMarkers",
)
"""What the model clients request."""
LATE_IS_HARMLESS = ("Fetch", "ListOffsets", "Metadata", "FindCoordinator", "Heartbeat", "InitProducerId")
"""Requests that may come late, after their client has sent another; others only where no client is a classic one."""
NEVER_LATE = ("OffsetCommit", "CreateTopics", "DeleteTopics")
"""Requests that no protocol distinguishes from a later one of the same client."""
REFUSED_AS_ONE = ("InitProducerId", "AddOffsetsToTxn", "EndTxn", "JoinGroup", "SyncGroup", "Heartbeat")
"""Requests with one place for an error that clients read."""
LOG_REFUSALS = ("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "KAFKA_STORAGE_ERROR")
COORDINATOR_REFUSALS = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")
DISK_REFUSALS = ("ENOSPC", "EIO")


def draw_faults(random: Random, duration_s: float, page_cache: bool, *, classic: bool) -> tuple[FaultPlan, ...]:
    """Ends of the broker, a bad disk, a bad clock, and fault points. `classic`: some client speaks the protocol that
    takes a late request for a new one."""
    made: list[FaultPlan] = []
    for _ in range(random.choice((0, 1, 1, 2, 3))):
        kind = "kill" if page_cache or random.random() < 0.4 else "power"
        operation = random.choice(("", *OPERATIONS)) if random.random() < 0.8 else ""
        made.append(
            FaultPlan(
                kind,
                random.random() * duration_s,
                operation,
                random.choice((1, 1, 2, 3, 5, 10)),
                down_s=random.choice((0.01, 0.1, 0.5)),
            )
        )
    for kind, chance in (("stop", 0.15), ("full", 0.08), ("failed sync", 0.08), ("cut", 0.2)):
        if random.random() < chance:
            amount, count = random.random() * 3000, random.choice((1, 2, 5))
            made.append(FaultPlan(kind, random.random() * duration_s, amount=amount, count=count))
    if random.random() < 0.2:
        amount = random.choice((-1800.0, -2.0, 2.0, 3600.0))
        made.append(FaultPlan("clock", random.random() * duration_s, amount=amount))
    if random.random() < 0.1:
        made.append(FaultPlan("drift", random.random() * duration_s, amount=random.choice((0.1, 0.9, 1.1, 5.0))))
    if random.random() < 0.45:
        for _ in range(random.choice((1, 2, 3, 5))):
            made.append(_at_a_point(random, duration_s, page_cache, classic))
    return tuple(sorted(made, key=lambda fault: fault.at_s))


def draw_starts(random: Random, duration_s: float, page_cache: bool) -> tuple[FaultPlan, ...]:
    """In some runs an end of the broker, and another one in the start after it. By a draw of its own, so that it
    changes no other."""
    if random.random() >= 0.15:
        return ()

    def kind() -> str:
        return "kill" if page_cache or random.random() < 0.5 else "power"

    at_s, moment, count = random.random() * duration_s * 0.8, random.choice(START_MOMENTS), random.choice((1, 2, 3, 8))
    end = FaultPlan(kind(), at_s, down_s=0.01)
    return end, FaultPlan(kind(), at_s, moment, count, down_s=random.choice((0.01, 0.1, 0.5)))


def draw_threads(random: Random, duration_s: float) -> tuple[FaultPlan, ...]:
    """In some runs the work of a thread fails as nobody expects, now and then as the broker starts; or the system makes
    no more threads. By a draw of its own, so that it changes no other."""
    if random.random() >= 0.08:
        return ()
    made = []
    for _ in range(random.choice((1, 1, 2))):
        at_s, count = random.random() * duration_s, random.choice((1, 1, 2, 5, 20))
        if random.random() < 0.25:
            made.append(FaultPlan(NO_MORE, at_s, amount=random.choice((ONE_THREAD, NO_THREAD))))
            continue
        work = random.choice(("blocking", "blocking", "beside"))
        made.append(FaultPlan(THREAD, at_s, work, count, amount=random.choice((0, 1))))
        if work == "beside":
            made.append(FaultPlan("kill", at_s, down_s=0.01))
    return tuple(made)


def draw_outages(random: Random, duration_s: float) -> tuple[FaultPlan, ...]:
    """Power cuts where an acknowledgement means the page cache, in some runs. By a draw of its own."""
    if random.random() >= 0.35:
        return ()
    return tuple(
        FaultPlan("power", random.random() * duration_s, random.choice(("", "", *OPERATIONS)), random.choice((1, 2, 5)))
        for _ in range(random.choice((1, 1, 2)))
    )


def _at_a_point(random: Random, duration_s: float, page_cache: bool, classic: bool) -> FaultPlan:
    text = _of_request(random, classic) if random.random() < 0.25 else _of_step(random, random.choice(_STEPS))
    text += f"@{random.choice((1, 1, 1, 1, 2, 3, 10))}"
    if "=crash" not in text and "=freeze" not in text:
        text += f"x{random.choice((1, 1, 3, 10))}"
    power = int(not page_cache and random.random() < 0.5)
    # Some points are passed at the start only.
    at_s = random.random() * duration_s * 0.5
    frozen_s = random.choice((0.02, 0.2, 1.5))
    return FaultPlan("point", at_s, text, power, frozen_s, down_s=random.choice((0.01, 0.1, 0.5)))


_STEPS = tuple(POINTS.values())


def _of_step(random: Random, point: Point) -> str:
    actions = [Action.CRASH, Action.CRASH, Action.FREEZE, Action.DELAY]
    if point.refusal is not Refusal.NONE:
        actions += [Action.FAIL, Action.FAIL]
    action = random.choice(actions)
    if action is Action.FAIL:
        refusals = DISK_REFUSALS if point.refusal is Refusal.ERRNO else LOG_REFUSALS
        return f"{point.name}=fail:{random.choice(refusals)}"
    return f"{point.name}={_with_time(random, action)}"


def _of_request(random: Random, classic: bool) -> str:
    api = random.choice(APIS)
    if random.random() < 0.5:
        action = random.choice((Action.CRASH, Action.FREEZE, Action.DELAY, Action.DROP, Action.DROP))
        return f"answer.{api}={_with_time(random, action)}"
    actions = [Action.CRASH, Action.FREEZE, Action.DROP, Action.DROP]
    if api in LATE_IS_HARMLESS or (not classic and api not in NEVER_LATE):
        actions.append(Action.DELAY)
    if api in REFUSED_AS_ONE:
        actions.append(Action.FAIL)
    action = random.choice(actions)
    if action is Action.FAIL:
        return f"request.{api}=fail:{random.choice(COORDINATOR_REFUSALS)}"
    return f"request.{api}={_with_time(random, action)}"


def _with_time(random: Random, action: Action) -> str:
    return f"{action.value}:{random.choice((1, 20, 300))}" if action is Action.DELAY else action.value
