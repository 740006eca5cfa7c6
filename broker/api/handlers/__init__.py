"""handlers: one module per API family; each names its APIs and their keys in its head."""
