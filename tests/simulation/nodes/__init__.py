"""Several nodes over one store: what they need beside what one does."""
