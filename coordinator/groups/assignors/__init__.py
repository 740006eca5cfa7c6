"""Who gets which partition: the assignors that a broker computes for its consumer groups (KIP-848)."""
