"""cdc: changes of a table into a compacted topic and a table."""
