"""What this process has open below a path. Others' leavings may be closed by the garbage collector at any time."""

import os
from pathlib import Path


def open_below(path: Path | str) -> list[str]:
    """The paths of descriptors that are open on `path` or below it, one for each descriptor."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:  # the listing's own, and what is closed meanwhile
            continue
    return [target for target in found if target.startswith(str(path))]
