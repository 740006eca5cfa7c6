"""Properties that hold for every input, generated from the tables."""
