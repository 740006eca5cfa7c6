"""disk: local files and group commit: how bytes become durable."""
