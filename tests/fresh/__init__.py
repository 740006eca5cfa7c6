"""A fresh machine: the commands of the README, in a Debian that has nothing but that. See `__main__`."""
