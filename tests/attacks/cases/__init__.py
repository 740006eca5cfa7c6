"""The attacks, by what they are aimed at; `registry.load_cases` brings them together."""
