"""What a command ends with that explains: 0 where nothing stands still, 1 with a sentence on stderr where nobody could
be asked, 2 for wrong options.
"""

STANDS_STILL = 3
"""Something does."""
