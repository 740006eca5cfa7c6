"""upkeep: what a node does every so often: retention, compaction, expiry of producers, checkpoints."""
