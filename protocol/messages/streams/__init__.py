"""The messages of streams groups (KIP-1071)."""
