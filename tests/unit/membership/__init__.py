"""How a node lives beside others over one store."""
