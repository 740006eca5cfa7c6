"""A log whose bytes lie in a store that several nodes can reach: the port to such a store, and the log over it."""
