"""How a defect is planted in SQL: the text of a constant is another one, for tables that are made meanwhile, and for
what a node asks.
"""

import contextlib
import importlib
from collections.abc import Callable
from typing import Any
from unittest import mock

from broker.shared import migration
from tests.mutants.mutant import Stale


def changed_sql(place: str, old: str, new: str) -> Callable[[], contextlib.AbstractContextManager[Any]]:
    """In the constant at `place` ("module:NAME"), `old` becomes `new`; it is there once. Where the constant is a part
    of the migrations, they are made of the changed one."""

    def plant() -> contextlib.AbstractContextManager[Any]:
        module_name, _, name = place.partition(":")
        module = importlib.import_module(module_name)
        text = getattr(module, name, None)
        if not isinstance(text, str):
            raise Stale(f"{place} is gone")
        if text.count(old) != 1:
            raise Stale(f"{place} has {text.count(old)} times {old!r}")
        changed = text.replace(old, new)
        if any(text in script for script in migration.MIGRATIONS):
            scripts = tuple(script.replace(text, changed) for script in migration.MIGRATIONS)
            return mock.patch.object(migration, "MIGRATIONS", scripts)
        return mock.patch.object(module, name, changed)

    return plant
