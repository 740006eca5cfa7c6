"""A plan: the shape of a cluster, its clients, its faults and settings. `plan` draws one of each seed.

Everything that can be left out is an element of a list, for `shrink` leaves elements out.
"""

from dataclasses import dataclass, field, replace

from tests.harness.network import NetworkFaults
from tests.opinion.trace import Circumstances


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """One client: its kind, its own seed, and what it has to know."""

    kind: str
    name: str
    seed: int
    start_s: float = 0.0
    options: tuple[tuple[str, object], ...] = ()

    def option(self, name: str, default: object = None) -> object:
        return dict(self.options).get(name, default)


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """One fault. `operation` is the disk operation at whose `count`th occurrence after `at_s` it strikes, "" is at
    once. Of kind "rot" it is how a file is damaged before the next start. Of kind "point" it is what `broker.faults`
    arms; a crash there takes the power along if `count` is not 0."""

    kind: str
    at_s: float
    operation: str = ""
    count: int = 0
    amount: float = 0.0
    down_s: float = 0.1


@dataclass(frozen=True, slots=True)
class SilencePlan:
    """A silence behind all else, in which everything grows older than the broker remembers it; see `silence`."""

    seed: int
    span_s: float
    first: str
    """How the broker ends before it, and comes back with `settings`: "stop", "kill" or "power"."""
    settings: tuple[tuple[str, str], ...]
    ends: tuple[FaultPlan, ...] = ()
    """More ends of the broker, by their time in the silence."""
    looks_s: tuple[float, ...] = ()
    """When it is asked what it remembers."""

    def without_end(self, index: int) -> "SilencePlan":
        return replace(self, ends=self.ends[:index] + self.ends[index + 1 :])


@dataclass(frozen=True, slots=True)
class WidePlan:
    """Many partitions beside the usual ones, in topics named w0, w1, …; `used` of them see records."""

    topics: int
    partitions: int
    """Of each topic."""
    used: int

    @property
    def names(self) -> list[str]:
        return [f"w{index}" for index in range(self.topics)]

    @property
    def places(self) -> list[tuple[str, int]]:
        """Those that are used, from all over."""
        return [(f"w{n % self.topics}", n // self.topics * STRIDE % self.partitions) for n in range(self.used)]


@dataclass(frozen=True, slots=True)
class Plan:
    """See the head of this file. What has a default is calm weather."""

    seed: int
    duration_s: float
    segment_bytes: int
    sync_s: float
    network: NetworkFaults
    final: str
    """How the broker ends before the last look: "", "stop", "kill" or "power"."""
    page_cache: bool = False
    partitions: int = 1
    internal_partitions: int = 1
    slow_disk: float = 0.0
    threads: int = 0
    """For what blocks; see `tests.harness.environment`."""
    any_subset: bool = False
    repeat: float = 0.0
    twins: float = 0.0
    """How often a request is sent once more while it waits for its answer."""
    record_bytes: int = 0
    """How large some records of producers are, at most; 0 where none is large."""
    clock_rate: float = 1.0
    """How fast the wall clock goes, measured by the monotonic one."""
    clients: tuple[ClientPlan, ...] = ()
    faults: tuple[FaultPlan, ...] = ()
    settings: tuple[tuple[str, str], ...] = field(default=())
    silence: SilencePlan | None = None
    wide: WidePlan | None = None

    def without_client(self, index: int) -> "Plan":
        return replace(self, clients=self.clients[:index] + self.clients[index + 1 :])

    def without_fault(self, index: int) -> "Plan":
        return replace(self, faults=self.faults[:index] + self.faults[index + 1 :])

    def session_s(self, session_ms: int) -> float:
        """So long a session of the broker's lasts for its member at the least: its clock, of which drift is followed
        (decision 0012), may go several times as fast as the one of the clients."""
        drifts = [fault.amount for fault in self.faults if fault.kind == "drift"]
        return SURE * session_ms / 1000 / max(1.0, self.clock_rate, *drifts)

    @property
    def forgets_producers_ms(self) -> int | None:
        """The shortest silence after which the broker may have forgotten a producer; None where that takes longer than
        any run. With a clock that is not that of the clients, or a broker that stands still, this is unknown."""
        settings = dict(self.settings)
        if "tallystick.producer.ids.max" in settings:
            return 0
        if "producer.id.expiration.ms" not in settings:
            return None
        moved = self.clock_rate != 1 or any(fault.kind in MOVED for fault in self.faults)
        return 0 if moved else int(settings["producer.id.expiration.ms"])

    @property
    def forgets_offsets(self) -> bool:
        """Whether offsets of a group without members may expire within the run."""
        return "offsets.retention.minutes" in dict(self.settings)

    @property
    def circumstances(self) -> Circumstances:
        """For the second opinion."""
        moved = self.clock_rate != 1 or any(fault.kind in MOVED for fault in self.faults)
        silent = self.silence is not None
        return Circumstances(
            restarts=True,
            forgets_producers=silent or self.forgets_producers_ms is not None,
            forgets_ids=silent or "transactional.id.expiration.ms" in dict(self.settings),
            forgets_offsets=silent or self.forgets_offsets,
            forgets_groups=silent or self.forgets_offsets or any(fault.kind == "clock" for fault in self.faults),
            damages_records=self.spoils,
            transactions_time_out=moved,
            offsets_partitions=self.internal_partitions,
            settled=True,
        )

    @property
    def disk_fails(self) -> bool:
        """Whether the disk may refuse a write or a sync, or a thread fail, which ends the broker."""
        return self.threads_fail or any(fault.kind in ("full", "failed sync", "point") for fault in self.faults)

    @property
    def threads_fail(self) -> bool:
        """Whether work may fail as nobody expects: who waits for it is told that it has, and no more."""
        return any(fault.kind == "thread" for fault in self.faults)

    @property
    def loses(self) -> bool:
        """Whether what was acknowledged may be lost: the power fails where an acknowledgement means the page cache."""
        return self.page_cache and any(fault.kind == "power" for fault in self.faults)

    @property
    def spoils(self) -> bool:
        """Whether the disk may return what was never written."""
        return any(fault.kind == "bit" for fault in self.faults)

    @property
    def has_points(self) -> bool:
        """Whether the broker is to have fault points."""
        return any(fault.kind == "point" for fault in self.faults)


MOVED = ("clock", "drift", "point", "freeze")
"""Faults after which time is not the same for the broker as for its clients."""
SURE = 0.95
"""The part of a session that rounding to milliseconds takes nothing of."""
LONG_MS = 86_400_000
"""Longer than any run."""
STRIDE = 7919
"""Prime, and no partition count is a multiple of it."""
MIXED = -1
"""A transactional version that is drawn anew whenever the client starts."""
