"""A fresh machine: what the README tells a newcomer to type, in a Debian that has nothing but that. See `__main__`."""
