"""Values that a schema registry knows, without a broker."""
