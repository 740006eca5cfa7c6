"""Arming fault points, counting how often each is passed, and striking.

Rule 1. A node that was given no `Faults` has no fault points in it at all: they live in wrappers around partitions,
files and handlers (`partitions`, `disk`, `answers`), which only such a node makes. Off costs nothing.
Rule 2. Every pass is counted, armed or not: `hits` is the coverage of a test.
Rule 3. What "crash" means is up to the `Victim`: a real process kills itself, a simulated one is killed.

One line of text arms points, in the variable TALLYSTICK_FAULTS or in `arm`:

    prepare.after-append=crash              at the first pass
    marker.before=fail:NOT_LEADER_OR_FOLLOWER@2x3     at the second pass, and at the two after that
    marker.before[orders:1]=delay:50        of this partition alone; [orders] means all of the topic
    log.before-append=fail:ENOSPC@100x*     from the hundredth pass on, for ever
    answer.EndTxn=drop, produce.after-sync=delay:50   several at once

An empty line, or `on`, arms nothing; the points are counted, and may be armed later.
"""

import errno
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from broker.api.catalogue import CATALOGUE
from broker.config.sources import ConfigError
from broker.faults.points import Action, Point, Refusal, point_called
from broker.partitions.errors import AppendError
from broker.process.logging import EventLog
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker.api.catalogue import Entry
    from broker.partitions.partition import Partition
    from storage.files import Files

FOR_EVER = -1


_ENTRY = re.compile(
    r"(?P<point>[\w.-]+)(\[(?P<place>[\w.-]+(:\d+)?)\])?=(?P<action>[a-z]+)(:(?P<argument>\w+))?(@(?P<at>\d+)(x(?P<times>\d+|\*))?)?"
)
_log = EventLog("faults")


class BadFault(ConfigError):
    """A fault that there is not, in a sentence that says why."""


class Victim(Protocol):
    """The process that faults strike."""

    def crash(self) -> None:
        """End at once, as by `kill -9`. Does not return; a simulated process may raise something of its own."""

    def freeze(self) -> None:
        """Stand still until somebody wakes it."""

    def stand_still(self, milliseconds: int) -> None:
        """Do nothing for a while: not even other requests."""


@dataclass(slots=True)
class Fault:
    """One armed point. It strikes at the `at`th pass from now (1 is the next), and `times` times in a row."""

    point: Point
    action: Action
    code: ErrorCode = ErrorCode.NONE
    errno: int = 0
    delay_ms: int = 0
    at: int = 1
    times: int = 1
    place: str = ""
    """A topic, or one of its partitions as `topic:1`; "" means everywhere."""
    passes: int = 0

    def strikes(self, topic: str, partition: int) -> bool:
        """Called with each pass; those elsewhere do not count."""
        if self.place and self.place not in (topic, f"{topic}:{partition}"):
            return False
        self.passes += 1
        return self.passes >= self.at and (self.times == FOR_EVER or self.passes < self.at + self.times)

    @property
    def is_over(self) -> bool:
        return self.times != FOR_EVER and self.passes >= self.at + self.times - 1


class Faults:
    """See the head of this file. `watcher` gets the name of each point that is passed, before a fault strikes; it
    may raise what it likes."""

    def __init__(self, victim: Victim, text: str = "", *, watcher: Callable[[str], None] | None = None) -> None:
        self.hits: Counter[str] = Counter()
        self.watcher = watcher
        self._victim = victim
        self._armed: dict[str, list[Fault]] = {}
        self._lock = threading.Lock()
        self.arm(text)

    def striking(self, victim: Victim) -> "Faults":
        """The same, armed and counted together, for one of several nodes of a process."""
        of_node = copy(self)
        of_node._victim = victim
        return of_node

    # -- arming ----------------------------------------------------------------------------------------------

    def arm(self, text: str) -> None:
        """Arm what a text says, beside what is armed already. All of it or, with `BadFault`, nothing."""
        parts = [part.strip() for part in re.split(r"[,;\n]", text)]
        faults = [_parse(part) for part in parts if part and part != "on"]
        with self._lock:
            for fault in faults:
                self._armed.setdefault(fault.point.name, []).append(fault)

    def disarm(self) -> None:
        """Nothing strikes any more."""
        with self._lock:
            self._armed.clear()

    @property
    def armed(self) -> list[Fault]:
        """What can still strike."""
        return [fault for faults in self._armed.values() for fault in faults]

    # -- passing ---------------------------------------------------------------------------------------------

    def reach(self, name: str, *, waits: bool = False, topic: str = "", partition: int = -1) -> Fault | None:
        """A point is passed, in a partition where it is one of partitions. Crashes, freezes and stands still here; what
        remains to be done (FAIL, DROP, and DELAY if the place `waits` by itself) is returned. May be called on any
        thread."""
        with self._lock:
            self.hits[name] += 1
            struck = self._struck(name, topic, partition)
        if self.watcher is not None:
            self.watcher(name)
        if struck is None:
            return None
        _log.warning("a fault strikes", point=name, action=struck.action.value, hit=self.hits[name])
        if struck.action is Action.CRASH:
            self._victim.crash()
        elif struck.action is Action.FREEZE:
            self._victim.freeze()
        elif struck.action is Action.DELAY and not waits:
            self._victim.stand_still(struck.delay_ms)
        else:
            return struck
        return None

    def _struck(self, name: str, topic: str, partition: int) -> Fault | None:
        """The first armed fault that strikes; all of them count the pass."""
        faults = self._armed.get(name)
        if not faults:
            return None
        striking = [fault for fault in faults if fault.strikes(topic, partition)]
        left = [fault for fault in faults if not fault.is_over]
        if left:
            self._armed[name] = left
        else:
            del self._armed[name]
        return striking[0] if striking else None

    def refuse(self, name: str, topic: str, partition: int) -> None:
        """Pass a point at which an append may be refused. Raises `AppendError`."""
        struck = self.reach(name, topic=topic, partition=partition)
        if struck is not None:
            raise AppendError(struck.code, f"a fault at {name}")

    def refuse_file(self, name: str, path: str) -> None:
        """Pass a point at which a disk may refuse. Raises `OSError`."""
        struck = self.reach(name)
        if struck is not None:
            raise OSError(struck.errno, f"a fault at {name}", path)

    # -- putting the points in ---------------------------------------------------------------------------------

    def partition_class(self) -> "Callable[..., Partition]":
        """What makes partitions with fault points."""
        from broker.faults.partitions import FaultyPartition

        def made(**known: Any) -> "Partition":
            partition = FaultyPartition(**known)
            partition.faults = self
            return partition

        return made

    def around_files(self, files: "Files") -> "Files":
        """The disk, with fault points."""
        from broker.faults.disk import FaultyFiles

        return FaultyFiles(self, files)

    def around_handlers(self, catalogue: "Mapping[int, Entry]") -> "dict[int, Entry]":
        """Every handler, with a fault point before and one after it."""
        from broker.faults.answers import around

        return {key: around(self, entry) for key, entry in catalogue.items()}


def _parse(text: str) -> Fault:
    found = _ENTRY.fullmatch(text)
    if found is None:
        raise BadFault(f"{text!r} is no fault; write point=action, for example prepare.after-append=crash@3")
    apis = frozenset(entry.name for entry in CATALOGUE.values())
    point = point_called(found["point"], apis)
    if point is None:
        raise BadFault(f"there is no fault point {found['point']}")
    if found["action"] not in [action.value for action in point.actions]:
        allowed = ", ".join(action.value for action in point.actions)
        raise BadFault(f"{found['action']!r} cannot happen at {point.name}; {allowed} can")
    times = FOR_EVER if found["times"] == "*" else int(found["times"] or 1)
    fault = Fault(point, Action(found["action"]), at=int(found["at"] or 1), times=times)
    if found["place"] and not point.is_of_partitions:
        raise BadFault(f"{point.name} is passed in no partition: {text!r}")
    fault.place = found["place"] or ""
    if fault.at < 1 or times == 0:
        raise BadFault(f"{text!r} never strikes; passes are counted from 1")
    _take_argument(fault, found["argument"], text)
    return fault


LONGEST_DELAY_DIGITS = 8
"""A day of milliseconds has as many; what no clock can count would strike as a failure of the storage."""


def _take_argument(fault: Fault, argument: str | None, text: str) -> None:
    if fault.action is Action.DELAY:
        if argument is None or not (argument.isascii() and argument.isdigit()):
            raise BadFault(f"{text!r} says not how long; write delay:50 for 50 ms")
        if len(argument) > LONGEST_DELAY_DIGITS:
            raise BadFault(f"{text!r} is too long; {LONGEST_DELAY_DIGITS} digits at most")
        fault.delay_ms = int(argument)
    elif fault.action is Action.FAIL and fault.point.refusal is Refusal.ERRNO:
        known = getattr(errno, argument or "", None)
        if not isinstance(known, int):
            raise BadFault(f"{text!r} names no errno; write for example fail:ENOSPC")
        fault.errno = known
    elif fault.action is Action.FAIL:
        if argument is None or argument not in ErrorCode.__members__:
            raise BadFault(f"{text!r} names no error code; write for example fail:NOT_LEADER_OR_FOLLOWER")
        fault.code = ErrorCode[argument]
    elif argument is not None:
        raise BadFault(f"{fault.action.value} takes no argument: {text!r}")
