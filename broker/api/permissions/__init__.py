"""What each API needs to be allowed, and what it answers where it is not."""
