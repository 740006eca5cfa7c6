"""Logs in a store that several nodes can reach."""
