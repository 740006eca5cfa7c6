"""The rows of the table: what is measured, how, and which goals it has."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from tests.benchmarks import loads
from tests.benchmarks.loads import Figures
from tests.benchmarks.targets import DURABLE, KFAKE, PAGE_CACHE, RIVALS, Target

SIZES = {"100 B": (100, 2_000_000), "1 KB": (1000, 400_000), "10 KB": (10_000, 50_000)}
"""Record size and count at scale 1: two or three seconds of producing."""
TIMES_READ = {100: 1, 1000: 3, 10_000: 3}
"""How often the same records are read, so that it takes a second or more."""


@dataclass(frozen=True, slots=True)
class Goal:
    """`ours ≥ ratio × rival` (or ≤) for one figure in one mode; `absolute` compares with the number itself.

    The rival is what promises the same as that mode, unless another one is named.
    """

    mode: str
    figure: str
    bound: str
    ratio: float
    absolute: bool = False
    other_rival: str = ""

    @property
    def rival(self) -> str | None:
        return None if self.absolute else self.other_rival or RIVALS[self.mode]

    def is_met_by(self, value: float) -> bool:
        return value >= self.ratio if self.bound == "≥" else value <= self.ratio


@dataclass(frozen=True, slots=True)
class Row:
    """One load. `measure(target, scale)` runs it once and returns figures by name."""

    family: str
    title: str
    measure: Callable[[Target, float], Figures]
    goals: tuple[Goal, ...] = ()


def _with_cpu(target: Target, load: Callable[[], Figures], per: Callable[[Figures], float], name: str) -> Figures:
    before = target.cpu_seconds()
    figures = load()
    used = target.cpu_seconds() - before
    return figures | {name: used / per(figures)}


def _produce(size: int, count: int) -> Callable[[Target, float], Figures]:
    def measure(target: Target, scale: float) -> Figures:
        many = max(1000, int(count * scale))

        def load() -> Figures:
            topic, figures = loads.produce(target.bootstrap, size, many)
            loads.drop(target.bootstrap, topic)
            return figures

        return _with_cpu(target, load, lambda _: many * size / 1e9, "broker CPU-s per GB")

    return measure


def _consume(size: int, count: int) -> Callable[[Target, float], Figures]:
    def measure(target: Target, scale: float) -> Figures:
        many, times = max(1000, int(count * scale)), TIMES_READ[size]
        topic, _ = loads.produce(target.bootstrap, size, many)
        os.sync()
        read = _with_cpu(
            target,
            lambda: loads.consume(target.bootstrap, topic, size, many, times),
            lambda _: times * many * size / 1e9,
            "broker CPU-s per GB",
        )
        loads.drop(target.bootstrap, topic)
        return read

    return measure


def _transactions(producers: int) -> Callable[[Target, float], Figures]:
    def measure(target: Target, scale: float) -> Figures:
        return _with_cpu(
            target,
            lambda: loads.transactions(target.bootstrap, producers, max(1.0, 4 * scale)),
            lambda figures: figures["transactions"] / 1000,
            "broker CPU ms per transaction",
        )

    return measure


def _awaited(target: Target, scale: float) -> Figures:
    many = max(200, int(1500 * scale))
    return _with_cpu(target, lambda: loads.awaited(target.bootstrap, many), lambda _: many / 1e6, "broker CPU µs each")


def _than_kfake(figure: str, bound: str, ratio: float) -> Goal:
    """kfake leaves syncs to the kernel: what it is beside is the page cache."""
    return Goal(PAGE_CACHE, figure, bound, ratio, other_rival=KFAKE)


THROUGHPUT_GOALS = (
    Goal(PAGE_CACHE, "MB/s", "≥", 1.05),
    Goal(DURABLE, "MB/s", "≥", 1.0),
    Goal(PAGE_CACHE, "broker CPU-s per GB", "≤", 0.6),
)
OF_KFAKE = {"10 KB": (_than_kfake("MB/s", "≥", 1.0),)}


def _transaction_goals(page_cache: float, durable: float) -> tuple[Goal, ...]:
    figure = "transactions/s"
    goals = Goal(PAGE_CACHE, figure, "≥", page_cache), Goal(DURABLE, figure, "≥", durable)
    return (*goals, _than_kfake(figure, "≥", 0.8))


ROWS = (
    *(
        Row(
            "produce",
            f"produce, idempotent, acks=all, {title}",
            _produce(size, count),
            THROUGHPUT_GOALS + OF_KFAKE.get(title, ()),
        )
        for title, (size, count) in SIZES.items()
    ),
    *(
        Row("consume", f"consume, assigned, {title}", _consume(size, count), THROUGHPUT_GOALS)
        for title, (size, count) in SIZES.items()
    ),
    Row(
        "awaited",
        "one awaited produce",
        _awaited,
        (
            Goal(PAGE_CACHE, "p50 ms", "≤", 0.9),
            Goal(PAGE_CACHE, "p99 ms", "≤", 0.7),
            Goal(DURABLE, "p99 ms", "≤", 0.9),
            _than_kfake("p50 ms", "≤", 1.2),
        ),
    ),
    Row(
        "end-to-end",
        "end to end, one record",
        lambda target, scale: loads.end_to_end(target.bootstrap, max(100, int(800 * scale))),
        (Goal(PAGE_CACHE, "p50 ms", "≤", 0.8), Goal(PAGE_CACHE, "p99 ms", "≤", 0.3)),
    ),
    Row(
        "txn", "transactions of 10 records over 4 partitions, 1 producer", _transactions(1), _transaction_goals(2.5, 10)
    ),
    Row("txn", "transactions of 10 records over 4 partitions, 8 producers", _transactions(8), _transaction_goals(2, 5)),
    Row("group", "group: subscribe to first record", lambda target, scale: loads.group_join(target.bootstrap)),
)

START = "start to first ApiVersions answer"
RESTART = "start after kill -9 to first ApiVersions answer"
MEMORY_IDLE, MEMORY_LOADED = "memory, idle", "memory, after this load"
PRODUCER_MEMORY = "memory per idle idempotent producer, five batches each"
TRANSACTIONAL_MEMORY = "memory per idle transactional id"
DECISION = "a decision of the authorizer with 10 000 ACLs"
PRODUCE_WITH_ACLS = "produce with 10 000 ACLs, 1 KB"
WATCHED = (
    "produce, idempotent, acks=all, 100 B",
    "produce, idempotent, acks=all, 1 KB",
    "consume, assigned, 1 KB",
    "transactions of 10 records over 4 partitions, 8 producers",
)
"""Loads that are measured on a broker with metrics and a journal, beside one without."""
PRODUCE_TLS, CONSUME_TLS = "produce over TLS, 1 KB", "consume over TLS, 1 KB"


RECOVERY, COMPACTION = "first produce after kill -9", "one awaited produce beside a compaction"


def recovery_title(gigabytes: float) -> str:
    return f"{RECOVERY}, {gigabytes:g} GB in the log"


def compaction_title(gigabytes: float) -> str:
    return f"{COMPACTION} of {gigabytes:g} GB"


def watched_title(title: str) -> str:
    return f"{title}, watched"


MUCH_OF = {
    "many partitions": ("produce, 100 B", "fetch, 1 KB"),
    "many connections": ("produce, 100 B", "fetch, 1 KB"),
    "many fetch sessions": ("produce, 100 B", "fetch, 1 KB"),
    "many producers": ("produce, idempotent",),
    "many groups": ("commit an offset",),
    "a long log": ("produce, 100 B", "fetch, 1 KB", "look up a time"),
    "many at once": ("make and delete a topic, for each partition", "a transaction, for each partition"),
}
"""What a request is measured beside (`much.py`)."""


def much_title(work: str, of: str) -> str:
    return f"{SCALE} {of}: {work}"


SCALE = "beside"


def _both(figure: str, most: float) -> tuple[Goal, ...]:
    return tuple(Goal(mode, figure, "≤", most, absolute=True) for mode in (PAGE_CACHE, DURABLE))


SINGLE_GOALS = {
    START: _both("ms", 250),
    RESTART: (),
    recovery_title(0): _both("ms", 1000),
    recovery_title(5): _both("ms", 1000),
    MEMORY_IDLE: _both("MB", 50),
    MEMORY_LOADED: (),
    PRODUCER_MEMORY: (Goal(PAGE_CACHE, "bytes", "≤", 400, absolute=True),),
    TRANSACTIONAL_MEMORY: (Goal(PAGE_CACHE, "bytes", "≤", 500, absolute=True),),
    DECISION: (Goal(PAGE_CACHE, "µs", "≤", 2, absolute=True),),
    compaction_title(1): _both("ms more", 5),
    PRODUCE_TLS: (Goal(PAGE_CACHE, "MB/s", "≥", 1.0),),
    CONSUME_TLS: (Goal(PAGE_CACHE, "MB/s", "≥", 1.0),),
    PRODUCE_WITH_ACLS: (Goal(PAGE_CACHE, "of what it is without", "≥", 0.95, absolute=True),),
    **{
        watched_title(title): (Goal(PAGE_CACHE, "of what it is without", "≥", 0.98, absolute=True),)
        for title in WATCHED
    },
    **{
        much_title(work, of): (Goal(PAGE_CACHE, "of what few cost", "≤", 1.5, absolute=True),)
        for of, works in MUCH_OF.items()
        for work in works
    },
}
"""Goals of what is not measured in turns: a process's start and its memory."""

GOALS = {row.title: row.goals for row in ROWS} | SINGLE_GOALS
HEADINGS = {
    "produce": "Produce",
    "consume": "Consume",
    "awaited": "One awaited produce",
    "end-to-end": "End to end",
    "txn": "Transactions",
    "group": "Groups",
    "start": "Start and memory",
    "producers": "Memory for producers",
    "recovery": "After kill -9",
    "compaction": "Beside a compaction",
    "acls": "ACLs",
    "tls": "TLS",
    "watching": "Watched",
    "scale": "Much of something",
}
FAMILIES = tuple(HEADINGS)
_BEGINNINGS = {
    **{row.title: row.family for row in ROWS},
    **dict.fromkeys((START, RESTART, MEMORY_IDLE, MEMORY_LOADED), "start"),
    **dict.fromkeys((PRODUCER_MEMORY, TRANSACTIONAL_MEMORY), "producers"),
    RECOVERY: "recovery",
    COMPACTION: "compaction",
    **dict.fromkeys((DECISION, PRODUCE_WITH_ACLS), "acls"),
    **dict.fromkeys((PRODUCE_TLS, CONSUME_TLS), "tls"),
    **{watched_title(title): "watching" for title in WATCHED},
    SCALE: "scale",
}


def family_of(title: str) -> str:
    """By the longest beginning that is known: some titles end with a size."""
    return _BEGINNINGS[max((known for known in _BEGINNINGS if title.startswith(known)), key=len)]
