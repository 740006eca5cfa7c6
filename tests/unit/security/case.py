"""One request of an API, in a form that matters to permissions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """`make` builds the request anew, as guards change them; `topic_id` is that of `t`."""

    name: str
    version: int
    make: Callable[[bytes], Any]
