"""The tests of the sources, against the core as it is compiled (decision 0042)."""
