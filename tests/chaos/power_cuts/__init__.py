"""Real power cuts: a journalling file system in a file, shut down under load (`make power-cuts`)."""
