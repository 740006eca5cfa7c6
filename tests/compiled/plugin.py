"""A plugin of pytest, loaded before everything else (`-p tests.compiled.plugin`): what is compiled is imported in the
place of its sources, in the tests' own process as in those of brokers.
"""

from tallystick import startup_guard

startup_guard.take_compiled()


def pytest_report_header() -> str:
    return f"core: {startup_guard.core()}, {max(0, len(startup_guard.compiled_modules()) - 1)} modules"
