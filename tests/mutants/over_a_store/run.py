"""`make mutants-over-a-store`: plant one defect at a time, each in a process of its own, and see who notices it.

Who is expected to is asked, the first that does is enough. Tests over PostgreSQL have one server, and a schema each.
Before that, tests must be content with the code as it is. Exit status 1 where nobody notices a defect, or one does not
apply any more, 2 where there is no PostgreSQL, or a test fails without any defect.
"""

import argparse
import contextlib
import importlib
import os
import sys
import time
from collections.abc import Sequence
from unittest import mock

from tallystick.postgresql_process import why_not
from tests.mutants.asking import ask
from tests.mutants.catchers import BROKEN, NOTICED, STALE, UNNOTICED
from tests.mutants.mutant import Mutant
from tests.mutants.over_a_store.table import MUTANTS
from tests.mutants.page import rewrite_sections
from tests.shared_store import postgresql_server

NO_END = "no end within"
LONG_S = 3_600
PATIENCE_S = 15.0
"""How long a test waits for what a defect may keep from coming."""


def main(arguments: Sequence[str] | None = None) -> int:
    """See the head of this file."""
    options = _options(arguments)
    if options.page:
        rewrite_sections()
        return 0
    chosen = [one for one in MUTANTS.values() if _is_chosen(one, options.names, exact=options.exact)]
    if not chosen:
        print("there is no such defect")
        return 2
    wants_server, reason = any(_wants_postgresql(one) for one in chosen), why_not()
    if wants_server and reason is not None:
        print(reason)
        return 2
    _warm_up(chosen)
    with postgresql_server.running_for_forks() if wants_server else contextlib.nullcontext():
        if not options.unchecked and not _are_content(chosen):
            return 2
        noticed = sum(examine(one, every=options.every) for one in chosen)
    print(f"{noticed} of {len(chosen)} noticed")
    return 0 if noticed == len(chosen) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.over_a_store", description=__doc__)
    parser.add_argument("names", nargs="*", help="defects, or parts of their names; all of them by default")
    parser.add_argument("--exact", action="store_true", help="names are whole names")
    parser.add_argument("--every", action="store_true", help="ask all who are expected to notice, not the first alone")
    parser.add_argument(
        "--unchecked", action="store_true", help="do not look first whether all is well without defects"
    )
    parser.add_argument("--page", action="store_true", help="plant nothing, write docs/mutants.md of the tables")
    return parser.parse_args(arguments)


def _is_chosen(mutant: Mutant, names: Sequence[str], *, exact: bool) -> bool:
    return not names or any(name == mutant.name if exact else name in mutant.name for name in names)


def _warm_up(mutants: Sequence[Mutant]) -> None:
    """Import what is to notice them, so that a fork of this process has it."""
    for catcher in {one for mutant in mutants for one in mutant.caught_by}:
        file, separator, _ = catcher.partition(".py::")
        if separator:
            importlib.import_module(f"tests.{file.replace('/', '.')}")


def _are_content(mutants: Sequence[Mutant]) -> bool:
    """Whether the tests that are to notice something notice nothing without a defect."""
    tests = sorted({one for mutant in mutants for one in mutant.caught_by if ".py::" in one})
    with mock.patch.object(postgresql_server, "PATIENCE_S", PATIENCE_S):
        status, said = ask([" ".join(tests)], None, LONG_S) if tests else (UNNOTICED, "")
    if status != UNNOTICED:
        print(f"without any defect: {said}")
    return status == UNNOTICED


def _wants_postgresql(mutant: Mutant) -> bool:
    return any(one.startswith("shared_store/") for one in mutant.caught_by)


def examine(mutant: Mutant, *, every: bool = False) -> bool:
    """Whether it was noticed, by one who is expected to, or by `every` one. Says it."""
    found = []
    for catcher in mutant.caught_by:
        began = time.monotonic()
        with mock.patch.object(postgresql_server, "PATIENCE_S", PATIENCE_S):
            status, said = ask([catcher], mutant)
        if said.startswith(
            NO_END
        ):  # Of what a defect has broken tests have an end of their own, and seeds a last step.
            status = BROKEN
        found.append(status == NOTICED)
        words = {NOTICED: said[:200], UNNOTICED: f"NOT NOTICED by {catcher}", STALE: f"DOES NOT APPLY ANY MORE: {said}"}
        print(f"{mutant.name} ({time.monotonic() - began:.0f} s): {words.get(status, f'BROKEN: {said}')}", flush=True)
        if found[-1] and not every:
            break
    return all(found) if every else any(found)


def enter() -> None:
    """Order must not depend on hashes: start again with a fixed seed where it is not fixed."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.mutants.over_a_store", *sys.argv[1:]])
    sys.exit(main())
