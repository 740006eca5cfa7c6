"""What is searched, and what was found: the protocols as they are, which must break nothing, and each flaw, which must.

`SHORT` is for every day, `DEEP` has more faults at a time and takes minutes.
"""

from dataclasses import dataclass, replace

from tests.sink_model.explore import Outcome, Search
from tests.sink_model.faults import moves
from tests.sink_model.kafka import ALL_RULES, OLD, TV2, VERIFIED
from tests.sink_model.properties import SEQUENCES, Checker
from tests.sink_model.settings import FULL, NO_ROW, ONE_ROW, ROWS_IN_A_ROW, Flaw, Mode, Setting
from tests.sink_model.world import World, beginning

AN = Mode.MANY_WRITERS
SHARED = Mode.ALL_TASKS
_SMALL = ((ONE_ROW, NO_ROW),)
_TWO = ((ONE_ROW, ONE_ROW),)
_EMPTIED = ((ONE_ROW,), (ONE_ROW,))
_DEALT = ((((0, 1),),),)
"""Two rows for one partition, a row for each task."""

SHORT = (
    Setting(repeats=0),
    Setting(attempts=0),
    Setting(queries=((ONE_ROW, NO_ROW, ONE_ROW),), attempts=0, repeats=0),
    Setting(queries=_EMPTIED, attempts=0, repeats=0),
    Setting(rules=VERIFIED, queries=_SMALL, attempts=0),
    Setting(rules=OLD, queries=_SMALL, attempts=0),
    Setting(queries=_SMALL, attempts=0, timeouts=0, moves=1),
    Setting(queries=_TWO, attempts=0, repeats=0, timeouts=0, restores=1),
    *(Setting(mode, queries=_TWO, repeats=0, timeouts=0, is_upgrade=True) for mode in Mode),
    *(Setting(mode, rules, queries=_SMALL, repeats=0, attempts=0, stops=1) for mode in Mode for rules in (TV2, OLD)),
    Setting(AN, queries=_DEALT, timeouts=0, repeats=0),
    Setting(AN, queries=((ROWS_IN_A_ROW,),), timeouts=0, repeats=0, drivers=1),
    Setting(AN, queries=_DEALT, timeouts=0, attempts=0),
    *(Setting(AN, rules, queries=_DEALT, repeats=0, drivers=1) for rules in ALL_RULES),
    Setting(SHARED, queries=_DEALT, timeouts=0, repeats=0, attempts=0),
    Setting(SHARED, queries=((ROWS_IN_A_ROW,),), timeouts=0, repeats=0, drivers=1),
    Setting(SHARED, queries=_DEALT, timeouts=0, repeats=0, drivers=1, attempts=2),
    *(Setting(SHARED, rules, queries=_DEALT, repeats=0, drivers=1) for rules in ALL_RULES),
)

DEEP = (
    Setting(),
    Setting(queries=((ONE_ROW, NO_ROW, ONE_ROW),), drivers=3, attempts=0, repeats=0),
    Setting(queries=_EMPTIED, drivers=3, attempts=0, repeats=0),
    *(Setting(rules=rules, queries=_SMALL) for rules in (VERIFIED, OLD)),
    Setting(AN, queries=_SMALL),
    *(Setting(AN, rules, queries=_SMALL, repeats=0) for rules in (VERIFIED, OLD)),
    *(Setting(mode, queries=_TWO, attempts=0, repeats=0, drivers=3, moves=1, restores=1) for mode in Mode),
    *(Setting(mode, rules, queries=_TWO, attempts=0, is_upgrade=True) for mode in Mode for rules in ALL_RULES),
    *(Setting(mode, VERIFIED, queries=_SMALL, repeats=0, attempts=0, stops=1) for mode in Mode),
    *(Setting(mode, queries=_SMALL, repeats=0, stops=1) for mode in Mode),
    Setting(AN, queries=((ROWS_IN_A_ROW,),), timeouts=0, repeats=0),
    Setting(AN, queries=_DEALT),
    *(Setting(AN, rules, queries=_DEALT, timeouts=0, repeats=0) for rules in (VERIFIED, OLD)),
    Setting(SHARED, queries=_DEALT, timeouts=0, repeats=0),
    *(Setting(SHARED, rules, queries=_DEALT, timeouts=0, repeats=0, attempts=2) for rules in (TV2, VERIFIED, OLD)),
)


@dataclass(frozen=True, slots=True)
class Wrong:
    """A flaw, where it is looked for, and the property that must notice it."""

    setting: Setting
    noticed_by: str


def _one(flaw: Flaw, noticed_by: str, **more: object) -> Wrong:
    few = {"queries": _SMALL, "attempts": 0, "timeouts": 0} | more
    return Wrong(Setting(flaw=flaw, **few), noticed_by)  # type: ignore[arg-type]


def _many(flaw: Flaw, noticed_by: str, **more: object) -> Wrong:
    few = {"queries": _DEALT, "repeats": 0, "timeouts": 0, "drivers": 1} | more
    return Wrong(Setting(AN, flaw=flaw, **few), noticed_by)  # type: ignore[arg-type]


FLAWED = (
    _one(Flaw.MARKER_BEFORE_FENCE, "I1 no duplicates"),
    _one(Flaw.LEASE_IN_STREAM_WRITER, "I6 no wedge"),
    _one(Flaw.ABORT_UNDECIDED, "I5 all or nothing", queries=((FULL,),)),
    _one(Flaw.SKIP_BY_SINK, "I2 no loss", queries=_EMPTIED),
    _one(Flaw.END_WHEN_EMPTY, "I6 no wedge"),
    _one(Flaw.MARKER_UP_TO_STABLE, "I1 no duplicates"),
    _one(Flaw.NO_MARKER, "I1 no duplicates"),
    _one(Flaw.NOTE_BEFORE_END, "I2 no loss"),
    _one(Flaw.ABORT_UNDER_OLD_RULES, "I6 no wedge", rules=OLD),
    _one(Flaw.KEYED_BY_PATH, "I1 no duplicates", moves=1),
    _one(Flaw.NOT_COMPARED, "I2 no loss", restores=1),
    _one(Flaw.OLD_NAME_FORGOTTEN, "I1 no duplicates", is_upgrade=True),
    _many(Flaw.PASSED_ON, SEQUENCES),
    _many(Flaw.FROM_ZERO, SEQUENCES, attempts=0),
    _many(Flaw.BACK_TOO_SOON, "I5 all or nothing", attempts=0),
    _many(Flaw.REFUSED_IS_DONE, "I5 all or nothing", queries=((ROWS_IN_A_ROW,),)),
    _many(Flaw.TWO_ATTEMPTS, "I1 no duplicates"),
    _many(Flaw.RETRY_UNDER_SAME_LEASE, SEQUENCES),
    _many(Flaw.RETRY_WITHOUT_LOOKING, "I1 no duplicates"),
    _many(Flaw.ABORT_BEFORE_RETRY, "L1 nothing stays open", rules=OLD),
)


def _shared(flaw: Flaw, noticed_by: str, **more: object) -> Wrong:
    found = _many(flaw, noticed_by, **more)
    return Wrong(replace(found.setting, mode=SHARED), noticed_by)


FLAWED = (
    *FLAWED,
    _shared(Flaw.LEASES_NOT_COMPARED, "I5 all or nothing"),
    _shared(Flaw.PASSED_ON, SEQUENCES),
    _shared(Flaw.FROM_ZERO, SEQUENCES, attempts=0),
    _shared(Flaw.BACK_TOO_SOON, "I5 all or nothing", attempts=0),
    _shared(Flaw.TWO_ATTEMPTS, "I1 no duplicates"),
    _shared(Flaw.RETRY_UNDER_SAME_LEASE, "I1 no duplicates"),
    _shared(Flaw.RETRY_WITHOUT_LOOKING, "I1 no duplicates", drivers=2, queries=((ONE_ROW,),)),
)


def search(setting: Setting) -> Outcome:
    """Everything that can be reached from an empty topic and an empty checkpoint."""
    return Search[World](lambda world: moves(world, setting), Checker(setting)).run(beginning(setting))
