"""What groups of the consumer protocol need of this node: topics, regular expressions, settings (KIP-848)."""
