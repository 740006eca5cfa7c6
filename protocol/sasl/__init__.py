"""sasl: what SASL mechanisms send each other, and what is kept of a secret."""
