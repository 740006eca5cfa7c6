"""Where readers that go on will go on: they need no index lookup then."""

HINTS = 256


class ReadHints:
    """(index of the segment, position) by offset, of the last reads of one log."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[int, int]] = {}

    def keep(self, offset: int, index: int, position: int) -> None:
        if len(self._places) >= HINTS:
            self._places.clear()
        self._places[offset] = (index, position)

    def get(self, offset: int) -> tuple[int, int] | None:
        return self._places.get(offset)

    def clear(self) -> None:
        """Segments have come or gone."""
        self._places.clear()
