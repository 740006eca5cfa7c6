"""config: the broker's settings, where they come from, and what they say of listeners and topics."""
