"""The transaction coordinator, without a broker around it."""
