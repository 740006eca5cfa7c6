"""A data folder as each version of the format was written, and what clients find in it today."""
