"""What is worth knowing of Spark's Python workers.

A worker is used again from task to task, and Spark's daemon collects garbage in it after each of them. With everything
loaded that a connector needs, one such collection takes longer (50 ms of a core) than a small task itself (5 ms).
"""

import gc
import os

_kept: set[tuple[int, str]] = set()


def keep_what_is_loaded(part: str) -> None:
    """Take all that this process has loaded so far out of the garbage collector's sight; once for each part of ours.

    To be called at the end of a task: by then everything is imported, and little else is there.
    """
    if (os.getpid(), part) not in _kept:
        _kept.add((os.getpid(), part))
        gc.freeze()
