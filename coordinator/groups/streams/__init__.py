"""Streams groups (KIP-1071): what is logged of them, the topics and tasks of an application, what members are told."""
