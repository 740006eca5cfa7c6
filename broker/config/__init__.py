"""config: the broker's settings, and where they come from."""
