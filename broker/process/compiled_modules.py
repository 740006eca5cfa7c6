"""Which modules run compiled (decision 0042). `tallystick/startup_guard.py` has chosen, before any was imported."""

import sys
from importlib.machinery import ExtensionFileLoader

PACKAGES = ("protocol", "storage", "coordinator", "broker")
_OF_A_WHEEL = "tallystick._parts."


def compiled_modules() -> list[str]:
    """The names of those that are imported; empty where all of it is interpreted."""
    of_ours = (name for name in [*sys.modules] if name.removeprefix(_OF_A_WHEEL).partition(".")[0] in PACKAGES)
    specs = {name: sys.modules[name].__spec__ for name in of_ours}
    return sorted(name for name, spec in specs.items() if spec and isinstance(spec.loader, ExtensionFileLoader))
