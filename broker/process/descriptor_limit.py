"""How many descriptors this process may have open, and how they are shared out.

A part of them is the reserve, half of the rest a cache of open files, which makes room when there are no more
(`broker.disk.descriptor_cache`). The system always gives the lowest number that is free: a number at the upper end says
that nearly all are taken. That end is the reserve, for logs and syncs; no connection gets it.
"""

import resource
import sys

MOST = 1 << 20
"""More are never requested, even where the limit is "infinity"."""
LEAST_RESERVE, MOST_RESERVE = 64, 4096
LEAST_FILES, MOST_FILES = 16, 8192
OWN = 64
"""What a broker has open before anything else: listeners, the loop's own, what is spare."""


def raise_limit() -> None:
    """As many as the administrator allows, as Java does: the soft limit is for programs that use `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError):  # macOS has a lower limit of its own, which it does not tell here
        return


def limit() -> int:
    """Descriptors have lower numbers than this."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def highest_for_connections() -> int:
    """A connection whose descriptor has this number or a higher one is too many."""
    most = limit()
    return most - _reserve(most)


def files_kept_open() -> int:
    """The size of the cache of open files."""
    most = limit()
    return max(LEAST_FILES, min((most - _reserve(most) - OWN) // 2, MOST_FILES))


def _reserve(most: int) -> int:
    return max(LEAST_RESERVE, min(most // 8, MOST_RESERVE))
