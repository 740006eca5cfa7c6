"""transactions: the transaction coordinator."""
