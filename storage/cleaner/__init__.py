"""cleaner: compaction: the latest record of each key, in segments that take the place of old ones."""
