"""storage: a log, and what can be known from its bytes."""
