"""The console: its pages over a real socket, and in a real browser."""
