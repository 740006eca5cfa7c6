"""A clock of work for tests: it goes on by one step whenever somebody looks, so that slices end at the same place in
every run.
"""

STEP_S = 0.0002


class WorkClock:
    """Seconds that pass with each reading."""

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        self._now += STEP_S
        return self._now
