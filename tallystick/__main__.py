"""`python -P -m tallystick …`: the server when asked to serve, `offline` where its files are to be looked at by
`tallystick dump` and `verify`, `backups` where they are to be copied by `tallystick backup` and `restore`, the command
line otherwise.
"""

import gc
import os
import signal
import sys
from typing import Any


def main() -> int:
    """Run one command; returns the exit status."""
    if sys.argv[1:2] in (["offline"], ["backups"]):
        return _work_on_files(sys.argv[1])
    if sys.argv[1:2] != ["serve"]:
        from tallystick.cli import main as command_line

        command_line()
        return 0
    # Until the server can end in order: a signal that comes earlier waits for that, through `become_server`, too.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
    guard = _load_guard()
    if not guard.is_guarded():
        guard.become_server(sys.argv[2:])
    try:
        guard.install()
    except guard.Shadowed as problem:
        sys.stderr.write(f"tallystick: {problem}\n")
        return 2
    gc.disable()  # nothing that is imported or read at start is garbage; the server turns it on again
    from broker.__main__ import main as serve

    return serve(sys.argv[2:])


def _work_on_files(room: str) -> int:
    guard = _load_guard()
    if not guard.is_guarded():
        guard.become_guarded(room, sys.argv[2:])
    try:
        guard.install()
    except guard.Shadowed as problem:
        sys.stderr.write(f"tallystick: {problem}\n")
        return 2
    if room == "offline":
        from broker.offline.__main__ import main as look

        return look(sys.argv[2], sys.argv[3:])
    from broker.backups.__main__ import main as copy

    return copy(sys.argv[2], sys.argv[3:])


def _load_guard() -> Any:
    """Import the guard by its path: this file may run as a script, without its package on `sys.path`."""
    from importlib.util import module_from_spec, spec_from_file_location

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup_guard.py")
    spec = spec_from_file_location("tallystick_startup_guard", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())
