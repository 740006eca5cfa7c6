"""What streams groups need of this node: settings, internal topics (KIP-1071)."""
