"""A broker that holds much of everything, in calm weather, and what is done in each turn of its loop, counted."""
