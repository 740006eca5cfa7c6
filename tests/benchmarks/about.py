"""The facts of a run that its figures depend on: machine, Python, what our brokers ran."""

import os
import platform
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence

import psutil

from tallystick import startup_guard
from tests.benchmarks.targets import KFAKE
from tests.harness import go_programs, kfake

OPTIMISATIONS = {"PGO": "--enable-optimizations", "LTO": "--with-lto"}


def about(targets: Sequence[str], rounds: int, scale: float) -> dict[str, object]:
    """What the page says of the run."""
    compiled = len(startup_guard.compiled_modules()) - 1  # beside them lies the library with their code
    facts: dict[str, object] = {
        "command": "make bench" + (f' ARGS="{" ".join(sys.argv[1:])}"' if sys.argv[1:] else ""),
        "on": time.strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "memory GB": round(psutil.virtual_memory().total / 2**30),
        "Python": f"{platform.python_version()} {optimised(sysconfig.get_config_vars())}",
        "our brokers": f"compiled core ({compiled} modules)" if compiled > 0 else "sources",
        "rounds": rounds,
        "scale": scale,
    }
    return facts | ({"kfake": go_programs.pinned(kfake.MODULE)} if KFAKE in targets else {})


def optimised(variables: Mapping[str, object]) -> str:
    """How a Python was built, as far as it knows the arguments of its `configure`.

    Debian's is said to be built with both (docs/operations.md), but its variables have neither option, nor the flag for
    profiles, which others have whether it was used or not.
    """
    given = [argument.strip("'\"") for argument in str(variables.get("CONFIG_ARGS", "")).split()]
    used = [name for name, option in OPTIMISATIONS.items() if _is_given(option, given)]
    if used:
        return f"(built with {' and '.join(used)})"
    if variables.get("PGO_PROF_USE_FLAG"):
        return "(built without PGO and LTO)"
    whose = "of the distribution, " if sys.base_prefix == "/usr" else ""
    return f"({whose}which does not say whether it was built with PGO and LTO)"


def _is_given(option: str, given: list[str]) -> bool:
    """`--with-lto` may have a value, such as thin; the last one counts."""
    chosen = [one for one in given if one.partition("=")[0] == option or one == option.replace("--with-", "--without-")]
    return bool(chosen) and not chosen[-1].startswith("--without-") and not chosen[-1].endswith("=no")
