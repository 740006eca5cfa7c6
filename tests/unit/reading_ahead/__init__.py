"""What is brought before a reader asks for it, out of a store that several nodes reach."""
