"""Groups of the consumer protocol (KIP-848): what is logged of them, and what their members are told."""
