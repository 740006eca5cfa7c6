"""partition: one log with what follows from it (producers, aborted transactions), its checks, and what is visible."""
