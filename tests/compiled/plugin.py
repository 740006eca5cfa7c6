"""A plugin of pytest, loaded before everything else (`-p tests.compiled.plugin`): what is compiled is imported in the
place of its sources, in the tests' own process as in those of brokers.
"""

import pytest

from tallystick import startup_guard

startup_guard.take_compiled()

PLANTS = "test_a_planted_defect_is_noticed"
"""Puts a defect in the place of a method, which compiled code calls without a look at the class."""


def pytest_report_header() -> str:
    return f"core: {startup_guard.core()}, {max(0, len(startup_guard.compiled_modules()) - 1)} modules"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    planting = [item for item in items if getattr(item, "originalname", "") == PLANTS]
    if planting:
        config.hook.pytest_deselected(items=planting)
        items[:] = [item for item in items if item not in planting]
