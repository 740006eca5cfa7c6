"""disk: local files, group commit, checkpoints: how bytes become durable."""
