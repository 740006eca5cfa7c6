"""sasl: mechanisms as machines from bytes to bytes, who they know, and what a connection may do before it is known."""
