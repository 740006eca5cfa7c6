"""messages: one module per API family; each message one table for all its versions."""
