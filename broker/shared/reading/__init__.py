"""Reading what a log has in the store: a stretch at a time, and ahead of who reads on."""
