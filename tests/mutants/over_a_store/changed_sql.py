"""How a defect is planted in SQL: the text of a constant is another one, for tables that are made meanwhile, and for
what a node asks.
"""

import contextlib
import importlib
from dataclasses import dataclass
from typing import Any
from unittest import mock

from broker.shared import migration
from tests.mutants.mutant import Stale


@dataclass(frozen=True, slots=True)
class ChangedSql:
    """In the constant at `place` ("module:NAME"), `old` becomes `new`; it is there once. Where the constant is a part
    of the migrations, they are made of the changed one. Raises `Stale`."""

    place: str
    old: str
    new: str

    def __call__(self) -> contextlib.AbstractContextManager[Any]:
        module_name, _, name = self.place.partition(":")
        module = importlib.import_module(module_name)
        text = getattr(module, name, None)
        if not isinstance(text, str):
            raise Stale(f"{self.place} is gone")
        if text.count(self.old) != 1:
            raise Stale(f"{self.place} has {text.count(self.old)} times {self.old!r}")
        changed = text.replace(self.old, self.new)
        if any(text in script for script in migration.MIGRATIONS):
            scripts = tuple(script.replace(text, changed) for script in migration.MIGRATIONS)
            return mock.patch.object(migration, "MIGRATIONS", scripts)
        return mock.patch.object(module, name, changed)
