"""clients: unmodified clients against a server process, over TCP."""
