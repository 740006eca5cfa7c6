"""Chaos of several nodes over one PostgreSQL with a standby: `python -m tests.chaos.cluster --minutes 10`."""
