"""handlers: one module per API family, the names of protocol/messages."""
