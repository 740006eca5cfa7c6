"""write_ahead: one file that makes what was appended to many durable with one sync."""
