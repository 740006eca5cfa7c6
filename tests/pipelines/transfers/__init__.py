"""transfers: money transfers into a double-entry ledger."""
