"""Times as people say them."""

from tallystick.durations import ago, in_words

__all__ = ["ago", "in_words"]
