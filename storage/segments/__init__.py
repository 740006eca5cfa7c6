"""segments: one segment of a log: its files and their format, its index, reading it."""
