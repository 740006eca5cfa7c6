"""The section of docs/mutants.md: line, defect, who notices it. It says what the tables say; that it is so is shown by
`make mutants-over-a-store`.
"""

from tests.mutants.mutant import Mutant
from tests.mutants.over_a_store.changed_sql import ChangedSql
from tests.mutants.over_a_store.lines import Line
from tests.mutants.over_a_store.simulated import by_line
from tests.mutants.over_a_store.table import ALL

TITLE = "## Nodes over a store"
_HEAD = """{title}

What may happen to nodes over [a store](store.md), a defect planted where it is met, and who notices it: the stories of
the port, random operations, commits held in the middle, standbys and lines to a bucket (`tests/shared_store`), a unit
test, or a seed of the simulation over a store, or of several nodes. {sql} of {count} are changes of the SQL that
PostgreSQL is told. `make mutants-over-a-store` plants each (`tests/mutants/over_a_store`), but for those that the
simulation's own tests plant in every run; `make test` plants a sample, and shows that an orderly life notices none of
those in SQL: none is a mere mistake in writing.

Not planted: that a hint (`NOTIFY`) waits for the standby. PostgreSQL 15 to 17 wait for none in any case; with 18
`test_who_asks_for_a_log_waits_until_the_standby_has_what_it_is_told` would notice it.
"""
KINDS = {"nodes": "the simulation of several nodes", "stored": "the simulation over a store"}


def section() -> str:
    """As it stands in the page."""
    rows: list[str] = []
    count = 0
    for line in Line:
        found = [(mutant.name, _noticed_by(mutant)) for of, mutant in ALL if of is line] + by_line(line)
        count += len(found)
        for number, (name, who) in enumerate(found):
            happens = f"**{line.happens}**: {line.comes}" if number == 0 else ""
            rows.append(f"| {happens} | {name} | {who} |")
    head = _HEAD.format(title=TITLE, sql=sum(is_sql(mutant) for _, mutant in ALL), count=count)
    return "\n".join(
        [head, "| what happens: what has to come of it | defect | noticed by |", "|---|---|---|", *rows, ""]
    )


def is_sql(mutant: Mutant) -> bool:
    """Whether it is a change of SQL, whose text nobody has read before it is run."""
    return isinstance(mutant.plant, ChangedSql)


def _noticed_by(mutant: Mutant) -> str:
    return ", ".join(dict.fromkeys(_in_words(one) for one in mutant.caught_by))


def _in_words(catcher: str) -> str:
    kind, _, rest = catcher.partition(" ")
    if kind in KINDS:
        seeds = rest.partition(" below ")[0].split()
        return f"{KINDS[kind]}, seed{'s'[: len(seeds) > 1]} {', '.join(seeds)}"
    file, _, test = catcher.partition("::")
    return f"`{test.partition('[')[0] or file}`"
