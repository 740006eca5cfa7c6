"""coordinator: deterministic state machines over logs."""
